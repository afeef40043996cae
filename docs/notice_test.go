package docs_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// NOTICE lists the modules that programs link, at their versions: scripts/notice.sh writes it, and says their licences.
func TestNotice(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./pkg/...", "./scripts/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(want)
	want = slices.DeleteFunc(slices.Compact(want), func(s string) bool { return s == "" })
	_, list, ok := strings.Cut(read(t, "NOTICE"), "compares it with go.mod.\n\n")
	if !ok {
		t.Fatal("NOTICE does not begin as scripts/notice.sh has it")
	}
	var got []string
	owners := map[string]int{}
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, " ") {
			owners[got[len(got)-1]]++
			continue
		}
		if len(f) < 3 {
			t.Fatalf("a module without version or licence: %q", line)
		}
		got = append(got, f[0]+" "+f[1])
		if f[2] == "Apache-2.0" {
			owners[f[0]+" "+f[1]]++ // which asks for a NOTICE file's text, and they have none
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("NOTICE lists\n%s\nthe programs link\n%s\nrun scripts/notice.sh", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, m := range got {
		if owners[m] == 0 {
			t.Errorf("%s: no owner of the copyright is named", m)
		}
	}
	if len(want) < 20 {
		t.Errorf("only %d modules were looked at", len(want))
	}
}
