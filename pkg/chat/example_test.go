package chat_test

import (
	"fmt"

	"github.com/toolroute/toolroute/pkg/chat"
)

func ExampleTemplate_Render() {
	t, err := chat.Parse(chat.Tiny)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := t.Render([]chat.Message{
		{Role: "user", Content: "How many items?"},
		{Role: "assistant", Content: "SELECT count(*) FROM items"},
		{Role: "tool", Content: "7"},
	}, nil, true)
	fmt.Println(text, err)
	// Output:
	// <|user|>How many items?<|im_end|><|assistant|>SELECT count(*) FROM items<|im_end|><|tool|>7<|im_end|><|assistant|> <nil>
}
