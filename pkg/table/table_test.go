package table_test

import (
	"fmt"
	"slices"
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

// What CSV writes is read back, and cells are found by the names of columns.
func TestReadCSV(t *testing.T) {
	want := table.New(1, "method", "success")
	want.Add("sft, \"grpo\"", "0.9")
	want.Add("two\n lines", "")
	got, err := table.ReadCSV(want.CSV())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Header, want.Header) || !slices.EqualFunc(got.Lines, want.Lines, slices.Equal) {
		t.Errorf("read %q %q, want %q %q", got.Header, got.Lines, want.Header, want.Lines)
	}
	if a, b := got.Cell(got.Lines[0], "success"), got.Cell(got.Lines[0], "cost"); a != "0.9" || b != "" || !got.Has("method") || got.Has("cost") {
		t.Errorf("the cells are %q and %q, want 0.9 and none", a, b)
	}
	for _, bad := range []string{"", "a,b\n1\n"} {
		if _, err := table.ReadCSV([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
