// Command doctor says what was found on this machine, which backend the models will run on and why, and how to get a
// faster one. It always ends with code 0 when it could report, whatever it found.
//
// It questions plugins through github.com/gomlx/gopjrt, whose C code cannot be linked into one program with the binding
// that the models use; so no other command may import that, and this one may not import pkg/lm. Both find plugins with
// pkg/plugin. A plugin is opened in a process of its own: one that crashes or hangs spoils its own line of the report.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

func main() {
	asJSON := flag.Bool("json", false, "print the findings as JSON")
	probe := flag.String("probe", "", "only open the plugin at this `path` and print what it says (used by doctor itself)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "doctor: unexpected argument %q; it takes --json only\n", flag.Arg(0))
		os.Exit(2)
	}
	var out any
	switch {
	case *probe != "":
		out = openPlugin(*probe)
	default:
		s := inspect(context.Background(), probeInChild)
		if !*asJSON {
			fmt.Print(s.report())
			return
		}
		out = s
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, "doctor:", err)
		os.Exit(1)
	}
}
