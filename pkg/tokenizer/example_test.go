package tokenizer_test

import (
	"fmt"

	"github.com/toolroute/toolroute/pkg/tokenizer"
)

func ExampleTrainTiny() {
	var texts []string
	for i := range 60 {
		name := []string{"Mar", "Bel", "Tor"}[i%3] + []string{"no", "che", "li", "va"}[i%4] + []string{"ster", "man", "dal", "berg", "son"}[i%5]
		texts = append(texts, "What is the price of "+name+"?", "The price of \""+name+"\" is 5.", "What is 5 of the 12?")
	}
	tok, err := tokenizer.TrainTiny(texts, tokenizer.TinyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A name that no text had, in pieces that several had.
	for _, s := range []string{"What is the price of Torlichedal?", "\"price\" 12"} {
		ids := tok.Encode(s)
		for _, id := range ids {
			piece, _ := tok.IDToken(id)
			fmt.Printf("%s|", piece)
		}
		fmt.Println(tok.Decode(ids, false) == s)
	}
	// Output:
	// ĠWhat|Ġis|Ġthe|Ġprice|Ġof|ĠTor|li|che|dal|?|true
	// "|Ġprice|"|Ġ|1|2|true
}
