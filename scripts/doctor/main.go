// Command doctor reports what this machine has, which backend the models will use and why, and how to get a faster one. It ends
// with code 0 if it could report, whatever it found.
//
// It opens plugins with github.com/gomlx/gopjrt. The C code of that module cannot be linked into one program with the binding that
// the models use. So no other command may import gopjrt, and doctor may not import pkg/lm. Both find plugins with pkg/plugin.
// doctor opens each plugin in a process of its own, so that one that crashes or hangs spoils only its own line of the report.
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
