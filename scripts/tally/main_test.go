package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What go test writes of a small module: packages that pass, skip, fail, panic and do not build.
func TestTally(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module m\n\ngo 1.26\n",
		"good/a_test.go":   "package good\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Log(\"quiet\") }\nfunc TestB(t *testing.T) { t.Skip(\"no plugin: install one\") }\nfunc TestC(t *testing.T) { t.Run(\"inner\", func(t *testing.T) { t.SkipNow() }) }\n",
		"bad/a_test.go":    "package bad\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Error(\"this is wrong\") }\nfunc TestB(t *testing.T) { panic(\"gone\") }\n",
		"broken/a.go":      "package broken\nfunc f() { undefinedName() }\n",
		"broken/a_test.go": "package broken\nimport \"testing\"\nfunc TestA(t *testing.T) {}\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(pkg string) (skips []string, failed bool, shown string) {
		t.Helper()
		cmd := exec.Command("go", "test", "-json", pkg)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-count=1")
		raw, _ := cmd.Output() // its status is what tally must tell by itself
		var out bytes.Buffer
		skips, failed, err := tally(bytes.NewReader(raw), &out)
		if err != nil {
			t.Fatalf("%s: %v\n%s", pkg, err, raw)
		}
		return skips, failed, out.String()
	}
	skips, failed, shown := run("./good")
	if got := strings.Join(skips, ""); failed || got != "m/good TestB: no plugin: install one\nm/good TestC/inner: without a reason\n" {
		t.Errorf("skips %q, failed %v", got, failed)
	}
	if !strings.HasPrefix(shown, "ok  \tm/good\t") || strings.Contains(shown, "quiet") || strings.Count(shown, "\n") != 1 {
		t.Errorf("shown %q", shown)
	}
	_, failed, shown = run("./bad")
	for _, want := range []string{"this is wrong", "panic: gone", "FAIL\tm/bad"} {
		if !failed || !strings.Contains(shown, want) {
			t.Errorf("failed %v, shown without %q:\n%s", failed, want, shown)
		}
	}
	if _, failed, shown = run("./broken"); !failed || !strings.Contains(shown, "undefinedName") {
		t.Errorf("failed %v, shown\n%s", failed, shown)
	}
	if _, failed, _ := tally(strings.NewReader("go: no such thing\n"), new(bytes.Buffer)); !failed {
		t.Error("nothing was tested, and that is no failure")
	}
}
