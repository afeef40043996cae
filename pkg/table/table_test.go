package table_test

import (
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/table"
)

func ExampleTable() {
	t := table.New(1, "method", "success")
	t.Add("sft | grpo", "0.9")
	t.Add("two\n lines", "1,5")
	fmt.Print(t.Markdown(), string(t.CSV()))
	// Output:
	// | method | success |
	// | --- | ---: |
	// | sft \| grpo | 0.9 |
	// | two lines | 1,5 |
	// method,success
	// sft | grpo,0.9
	// "two
	//  lines","1,5"
}

// A table without lines is its header.
func TestEmpty(t *testing.T) {
	e := table.New(2, "a", "b")
	if got, want := e.Markdown(), "| a | b |\n| --- | --- |\n"; got != want {
		t.Errorf("Markdown %q, want %q", got, want)
	}
	if got, want := string(e.CSV()), "a,b\n"; got != want {
		t.Errorf("CSV %q, want %q", got, want)
	}
}
