package cells_test

import (
	"fmt"

	"github.com/toolroute/toolroute/pkg/notebook/cells"
)

func ExampleDiff() {
	script, err := cells.ParseScript([]byte("// %% [markdown]\n// # Costs\n\n// %%\nfunc costs() {}\n\n//gonb:%exec costs\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	notebook, err := cells.ParseNotebook([]byte(`{"nbformat": 4, "cells": [
		{"cell_type": "markdown", "source": ["# Costs"]},
		{"cell_type": "code", "source": ["func costs() {}\n", "\n", "//gonb:%exec prices"]}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cells.Diff(script, notebook))
	// Output: cell 2 (func costs() {}), line 3: the script has "//gonb:%exec costs", the notebook has "//gonb:%exec prices"
}
