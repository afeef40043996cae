// Command tally reads the output of "go test -json" and shows it as "go test" would: a line for each package, and the output of
// failed tests. It also counts the skipped tests, which "go test" hides. With --skips it writes them to a file, a line each:
// package, test, reason. It ends with status 1 if a test failed.
//
//	go test -json ./... | go run ./scripts/tally --skips skips.txt
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	file := flag.String("skips", "", "file that the skipped tests are written to")
	flag.Parse()
	skips, failed, err := tally(os.Stdin, os.Stdout)
	if err == nil && *file != "" {
		err = os.WriteFile(*file, []byte(strings.Join(skips, "")), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

// event is a line of go test -json (go doc test2json); a package that does not build has an ImportPath.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// tally shows the packages and what failed, and returns the skipped tests.
func tally(in io.Reader, out io.Writer) (skips []string, failed bool, err error) {
	type key struct{ pkg, test string }
	said := map[key][]string{} // the output of the tests that are still running
	var order []key
	lines := bufio.NewReaderSize(in, 1<<20)
	packages := 0
	for {
		line, rerr := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line) // of the go command itself
			} else {
				k := key{e.Package, e.Test}
				switch {
				case e.Action == "build-output":
					fmt.Fprint(out, e.Output)
				case e.Action == "build-fail":
					failed = true
				case e.Test == "" && e.Action == "output":
					if e.Output != "PASS\n" {
						said[k] = append(said[k], e.Output)
					}
				case e.Test == "" && (e.Action == "fail" || e.Action == "pass" || e.Action == "skip"):
					packages++
					failed = failed || e.Action == "fail"
					for _, t := range order { // cut off by a panic or a deadline
						if t.pkg == e.Package && e.Action == "fail" {
							fmt.Fprint(out, strings.Join(said[t], ""))
						}
						if t.pkg == e.Package {
							delete(said, t)
						}
					}
					fmt.Fprint(out, strings.Join(said[k], ""))
					delete(said, k)
				case e.Action == "output":
					if _, begun := said[k]; !begun {
						order = append(order, k)
					}
					said[k] = append(said[k], e.Output)
				case e.Action == "fail":
					failed = true
					fmt.Fprint(out, strings.Join(said[k], ""))
					delete(said, k)
				case e.Action == "skip":
					skips = append(skips, fmt.Sprintf("%s %s: %s\n", e.Package, e.Test, reason(said[k])))
					delete(said, k)
				case e.Action == "pass":
					delete(said, k)
				}
			}
		}
		if rerr == io.EOF {
			if packages == 0 && !failed {
				return skips, true, fmt.Errorf("no package was tested")
			}
			return skips, failed, nil
		}
		if rerr != nil {
			return skips, true, rerr
		}
	}
}

// reason is the output of a skipped test, without the lines of go test itself.
func reason(said []string) string {
	var out []string
	for _, l := range said {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") {
			continue
		}
		// file_test.go:12: the reason
		if file, rest, ok := strings.Cut(l, ": "); ok && strings.Contains(file, ".go:") {
			l = rest
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return "without a reason"
	}
	return strings.Join(out, " ")
}
