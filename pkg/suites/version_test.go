package suites_test

import (
	"context"
	"io"
	"testing"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suites"
)

// versions are the fingerprints of the suites' smoke data sets, by the settings that show them. After an intended change of what a suite
// shows, raise the version in its definition, and note the new fingerprints here.
var versions = map[string]struct {
	version int
	shown   map[string]string
}{
	"company": {1, map[string]string{
		"suite.style=compact": "9b84ba96d50ac39e2bb3f2e6ee793f5af44c0f0b30a26dfbb30a97783bef27de",
		"suite.style=full":    "87c13ce4cc5dde712baa0cc5a43fcf16c3a82c7d52fa66e77bb0b3cfc8715f01",
	}},
	"families": {1, map[string]string{
		"suite.view.style=compact": "7438d606985947cf7902c0680e1a3dc9700507dc0c14a97f71c37faaf8593209",
		"suite.view.style=full":    "427a7bd5058c3529ad58c9660db1444a754ceb815cd215dd8a3745250ad38044",
	}},
	"chain": {1, map[string]string{
		"suite.habit.lazy_share=0.55": "987d7088f0e32fb32446f67b2144fcd11dc60953cf3301157f4f80461618a5fa",
	}},
}

func TestVersions(t *testing.T) {
	for _, d := range suites.All {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			want := versions[d.Name]
			if d.Version != want.version {
				t.Errorf("version %d, noted is %d", d.Version, want.version)
			}
			if len(want.shown) == 0 {
				t.Fatal("no fingerprint is noted")
			}
			for set, want := range want.shown {
				if got := fingerprint(t, d, set); got != want {
					t.Errorf("with %s the suite shows something else: %s, noted is %s. If that is meant, raise Version in its definition", set, got, want)
				}
			}
		})
	}
}

func fingerprint(t *testing.T, d suite.Definition, set string) string {
	t.Helper()
	cfg, err := config.Load(d.Name, "smoke", "", []string{set})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := cfg.Suite.Generate(dir, 1); err != nil {
		t.Fatal(err)
	}
	s, err := cfg.Suite.Open(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := s.(io.Closer); ok {
		defer c.Close()
	}
	got, err := suite.Fingerprint(context.Background(), s, d)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
