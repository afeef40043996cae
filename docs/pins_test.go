package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unpinned lists the lines of a Dockerfile or a workflow that take something from elsewhere by a name that can be moved.
func unpinned(text string) (out []string) {
	image := regexp.MustCompile(`^FROM\s+(--\S+\s+)*(\S+)`)
	action := regexp.MustCompile(`^\s*-?\s*uses:\s*(\S+)`)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := image.FindStringSubmatch(line); m != nil && m[2] != "toolroute" && !regexp.MustCompile(`@sha256:[0-9a-f]{64}$`).MatchString(m[2]) {
			out = append(out, line)
		}
		if m := action.FindStringSubmatch(line); m != nil && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(m[1]) {
			out = append(out, line)
		}
	}
	return out
}

// Base images are named by digest and actions by commit; toolroute is the image that docker/Dockerfile makes.
func TestPinned(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"docker/Dockerfile*", ".github/workflows/*"} {
		files, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(root, f))
			if err != nil {
				t.Fatal(err)
			}
			seen++
			for _, line := range unpinned(string(b)) {
				t.Errorf("%s: %q names no digest or commit", f, line)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d files were looked at", seen)
	}
	if got := unpinned("FROM debian:trixie\nFROM --platform=linux/amd64 debian@sha256:12\n      - uses: actions/checkout@v4\n        uses: a/b@main # 11bd71901bbe5b1630ceea73d27597364c9af683\n"); len(got) != 4 {
		t.Errorf("of four lines that are not pinned %q are found", got)
	}
}
