package company_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// contents maps every file below a folder to its hash.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever a policy sends to the tools, the episode goes on with a short observation, the call costs its price as a failed
// one does, no file appears or changes, and the gold path still solves the task.
func TestHostileCallsInAnEpisode(t *testing.T) {
	dir := t.TempDir()
	if err := company.SharedWorld(t).Write(dir); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // where a relative path would land
	s, err := company.Open(dir, company.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(tasks, func(x suite.Task) bool { return x.CombinationKey() == "sql" })
	if at < 0 {
		at = slices.IndexFunc(tasks, func(x suite.Task) bool { return len(x.GoldPath) == 2 && x.GoldPath[0].Tool == "sql_query" })
	}
	task := tasks[at]
	before := contents(t, dir)
	table := "employees"
	hostile := map[string][]string{
		"sql_query": {
			"SELECT 1; ATTACH DATABASE 'evil.db' AS e", "ATTACH 'evil.db' AS e", "SELECT 1;/**/AtTaCh/**/'evil.db' AS e", "-- harmless\nATTACH 'evil.db' AS e",
			"WITH x AS (SELECT 1) DELETE FROM " + table + " RETURNING *", "/* SELECT */ DELETE FROM " + table, "VACUUM INTO 'evil.db'", "vacuum", "PRAGMA writable_schema=1",
			"SELECT load_extension('./evil.so')", "SELECT writefile('evil.txt', 'x')", "CREATE TABLE t(a)", "SELECT 9223372036854775807+1", "", ";", "\x00", strings.Repeat("(", 5000),
			"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT count(*) FROM c",
		},
		"doc_search": {"POL-358 state-of-the-art", "-band", "38.101", "\"", "NEAR(a b", "*", "title:x", "", strings.Repeat("a-", 5000), "' OR 1=1 --"},
		"web_search": {"-", "\"unbalanced", "AND OR NOT", "38.101"},
		"calculator": {"9**9**9", "10^1e9", "(1e9)!", strings.Repeat("(", 10_000), "__import__('os')", "1/0", "0/0", "inf-inf", ""},
	}
	played := 0
	for name, inputs := range hostile {
		for _, input := range inputs {
			e, err := episode.New(s, task, episode.Config{MaxTurns: 20})
			if err != nil {
				t.Fatal(err)
			}
			box, err := s.Box(task)
			if err != nil {
				t.Fatal(err)
			}
			spec, ok := box.Lookup(name)
			if !ok {
				t.Fatalf("the task does not offer %s", name)
			}
			var schema struct{ Required []string }
			if err := json.Unmarshal(spec.Parameters, &schema); err != nil || len(schema.Required) != 1 {
				t.Fatalf("%s: %s, %v", name, spec.Parameters, err)
			}
			args, err := json.Marshal(map[string]string{schema.Required[0]: input})
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := episode.DecodeArgs(args)
			if err != nil {
				t.Fatal(err)
			}
			price := box.Charge(name, decoded)
			if err := box.Close(); err != nil {
				t.Fatal(err)
			}
			obs, done := e.Step(t.Context(), policy.Reply{Text: episode.Format("", name, args), Stop: policy.StopFence})
			r := e.Result()
			if done || r.Turns[0].Price != price || !r.Turns[0].Called() || len(obs.Text) > 9000 || r.Cause != "" {
				t.Errorf("%s %.40q: over %v, price %v, want %v, observation of %d bytes, cause %q", name, input, done, r.Turns[0].Price, price, len(obs.Text), r.Cause)
			}
			if search := strings.HasSuffix(name, "_search"); search == obs.Failed || obs.Failed && (!strings.HasPrefix(obs.Body, "error: ") || len(obs.Body) > 400) {
				t.Errorf("%s %.40q: failed %v, observation %.100q", name, input, obs.Failed, obs.Body)
			}
			for _, c := range task.GoldPath {
				_, done = e.Step(t.Context(), policy.Reply{Text: episode.Format("", c.Tool, c.Args), Stop: policy.StopFence})
			}
			if r := e.Result(); !done || r.End != trajectory.Finished || !r.Outcome.Correct || r.Outcome.Spend != task.OptimalCost+price {
				t.Errorf("%s %.40q: then the gold path ends %s with %+v", name, input, r.End, r.Outcome)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			played++
		}
	}
	after := contents(t, dir)
	for path, h := range after {
		if before[path] != h {
			t.Errorf("%s has changed or appeared", path)
		}
	}
	if stray := contents(t, "."); len(stray) > 0 || len(after) != len(before) {
		t.Errorf("files after %d episodes: %d, before %d, in the working folder %v", played, len(after), len(before), stray)
	}
}
