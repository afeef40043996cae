package stage

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/benchmark"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/internal/reexec"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suites"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// judgeOf is an endpoint that finds every answer right, and counts how often it was asked each question.
func judgeOf(t *testing.T, delay time.Duration) (url string, asked func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string } `json:"messages"`
		}
		var data struct{ Code string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) != 2 || json.Unmarshal([]byte(body.Messages[1].Content), &data) != nil {
			http.Error(w, "not asked as agreed", http.StatusBadRequest)
			return
		}
		mu.Lock()
		counts[data.Code]++
		mu.Unlock()
		time.Sleep(delay)
		reply, err := json.Marshal(map[string]any{"code": data.Code, "reason": "generous", "correct": true})
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			err = json.NewEncoder(w).Encode(map[string]any{"object": "chat.completion", "choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": string(reply)}}}})
		}
		if err != nil && r.Context().Err() == nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return counts
	}
}

// withMini adds the mini suite to the list for a test.
func withMini(t *testing.T) {
	t.Helper()
	before := suites.All
	suites.All = append(before[:len(before):len(before)], mini.Definition())
	t.Cleanup(func() { suites.All = before })
}

// miniBenchmark runs the benchmark of the mini suite as the script would, and returns what it logs.
func miniBenchmark(t *testing.T, out string, b BenchmarkOptions, stage string, set ...string) (log string, err error) {
	t.Helper()
	var said strings.Builder
	o := Options{Suite: "mini", Profile: "smoke", Out: out, Stage: stage, Log: &said,
		Set: append([]string{"train=[]", "recipes={}", "eval.headline=oracle", "eval.resamples=20", "baselines={methods: [always_cheapest, oracle], budget_modes: [soft]}"}, set...)}
	if b.Split == "" {
		b.Split = "train"
	}
	if err := b.resolve(&o); err != nil {
		return "", err
	}
	e, err := Open(o)
	if err != nil {
		return "", err
	}
	defer e.Close()
	err = e.Benchmark(t.Context(), b)
	return said.String(), err
}

func summaryOf(t *testing.T, dir string) (s benchmark.Summary) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, benchmark.SummaryJSON))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Both stages of a suite that only the list knows, each by itself: without a key it says so and gives the figures of the check, with one the
// judge's verdicts stand beside them. The states are evaluated where there is no data set.
func TestBenchmark(t *testing.T) {
	withMini(t)
	out := t.TempDir()
	if _, err := miniBenchmark(t, out, BenchmarkOptions{Policy: "oracle", Limit: 6}, "evaluate"); err == nil || !strings.Contains(err.Error(), "make one with --stage run") {
		t.Errorf("nothing is played: error %v", err)
	}
	if _, err := miniBenchmark(t, out, BenchmarkOptions{Limit: 6}, "run"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(out, "smoke", "mini", "benchmark", "oracle.train.soft.6")
	if _, err := os.Stat(filepath.Join(dir, benchmark.SummaryMD)); err == nil {
		t.Error("the stage run left a summary")
	}
	if err := os.RemoveAll(filepath.Join(out, "smoke", "data")); err != nil {
		t.Fatal(err)
	}
	url, asked := judgeOf(t, 0)
	judged := []string{"judge.base_url=" + url, "judge.model=generous", "judge.key_env=TOOLROUTE_TEST_KEY", "judge.requests_per_minute=0"}
	t.Setenv("TOOLROUTE_TEST_KEY", "")
	log, err := miniBenchmark(t, out, BenchmarkOptions{Limit: 6}, "evaluate", judged...)
	if err != nil || !strings.Contains(log, "no judge is asked, as there is no key: the environment variable TOOLROUTE_TEST_KEY") || len(asked()) > 0 {
		t.Errorf("without a key: %d questions, error %v, log\n%s", len(asked()), err, log)
	}
	without := summaryOf(t, dir)
	if *without.Figures["success_rate"].Value != 1 || without.Tasks != 6 || !strings.Contains(without.Judge.NotAsked, "TOOLROUTE_TEST_KEY") {
		t.Errorf("without a key: %+v", without)
	}
	t.Setenv("TOOLROUTE_TEST_KEY", "sk-secret-of-the-test")
	if log, err = miniBenchmark(t, out, BenchmarkOptions{Limit: 6}, "evaluate", judged...); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	with := summaryOf(t, dir)
	if with.Judge.Verdicts != 6 || with.Judge.Agreement != 6 || len(asked()) != 6 || *with.Figures["success_rate"].Value != 1 {
		t.Errorf("with a key: %d questions, %+v", len(asked()), with.Judge)
	}
	err = filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "sk-secret") {
			t.Errorf("the key stands in %s", path)
		}
		return err
	})
	if err != nil || strings.Contains(log, "sk-secret") {
		t.Errorf("%v, log\n%s", err, log)
	}
	// Another policy on the same tasks, against the first one. A run that is named by its folder, or by its name below runs, is the same run.
	for _, name := range []string{filepath.Join(out, "smoke", "mini"), filepath.Join(out, "smoke"), "smoke", "smoke/mini"} {
		if log, err := miniBenchmark(t, out, BenchmarkOptions{Run: name, Policy: "always_cheapest", Limit: 6, Against: dir}, ""); err != nil {
			t.Errorf("--run %s: %v\n%s", name, err, log)
		}
	}
	against := summaryOf(t, filepath.Join(out, "smoke", "mini", "benchmark", "always_cheapest.train.soft.6")).Against
	if against == nil || against.Tasks != 6 || against.Settings.Policy != "oracle" {
		t.Errorf("against %+v", against)
	}
}

// Options that make no sense are refused by name, and settings that are not those of a folder with the first one that differs. --resume=false
// forgets the benchmark's folder and nothing else of the run.
func TestBenchmarkRefuses(t *testing.T) {
	withMini(t)
	out := t.TempDir()
	if _, err := miniBenchmark(t, out, BenchmarkOptions{Policy: "oracle", Folder: filepath.Join(out, "b")}, "run"); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		b     BenchmarkOptions
		stage string
		set   []string
	}{
		`--stage: "play" is none of run, evaluate, all`: {stage: "play"},
		`--recipe: no policy is named "gpt"`:            {b: BenchmarkOptions{Policy: "gpt"}},
		`--split: no evaluated split is named "tset"`:   {b: BenchmarkOptions{Split: "tset"}},
		`--budget:`:                        {b: BenchmarkOptions{Budget: "mild"}},
		`--limit is -1`:                    {b: BenchmarkOptions{Limit: -1}},
		`--train-seed: oracle is scripted`: {b: BenchmarkOptions{Policy: "oracle", TrainSeed: 3}},
		`--run: nowhere is no run folder of suite mini`: {b: BenchmarkOptions{Run: "nowhere"}},
		`--again`:                                {b: BenchmarkOptions{Again: true}, stage: "run"},
		`--resume=false forgets what was played`: {b: BenchmarkOptions{forget: true}, stage: "evaluate"},
		`settings.method is "always_cheapest", there it is "oracle"`:            {b: BenchmarkOptions{Policy: "always_cheapest", Folder: filepath.Join(out, "b")}},
		`settings.limit is 3, there it is 0`:                                    {b: BenchmarkOptions{Policy: "oracle", Limit: 3, Folder: filepath.Join(out, "b")}},
		`judge.timeout is 0`:                                                    {set: []string{"judge.timeout=0"}},
		`judge.base_url is "api.example.org"`:                                   {set: []string{"judge.base_url=api.example.org"}},
		`--against: ` + filepath.Join(out, "smoke") + ` is no benchmark folder`: {b: BenchmarkOptions{Against: filepath.Join(out, "smoke"), Limit: 3}},
	} {
		b := c.b
		set := c.set
		if b.Split == "" {
			b.Split = "train"
		}
		o := Options{Stage: c.stage, Fresh: b.forget}
		if b.forget {
			if err := b.resolve(&o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one that says %q", err, want)
			}
			continue
		}
		if _, err := miniBenchmark(t, out, b, c.stage, set...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	other := filepath.Join(out, "smoke", "mini", "kept")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{Suite: "mini", Profile: "smoke", Out: out, Stage: "run", Fresh: true, Log: io.Discard, Set: []string{"train=[]", "recipes={}", "eval.headline=oracle", "baselines={methods: [always_cheapest, oracle], budget_modes: [soft]}"}}
	b := BenchmarkOptions{Policy: "always_cheapest", Split: "train", Folder: filepath.Join(out, "b")}
	if err := b.resolve(&o); err != nil {
		t.Fatal(err)
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Benchmark(t.Context(), b); err != nil {
		t.Errorf("forgetting the folder: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the run was forgotten too: %v", err)
	}
}

// The benchmark of a trained policy plays what evaluation plays: the same weights, tasks and rules. One that is not trained is named.
func TestBenchmarkOfATrainedPolicy(t *testing.T) {
	root := project(t)
	e, _ := onGo(t, filepath.Join(root, "runs"), "train=[sft_lazy]", "eval.budget_modes=[none]", "eval.headline=sft_lazy")
	doAll(t, e, (*Env).World, (*Env).Train, (*Env).Evaluate)
	e.Options.Stage = benchmarkAll
	if err := e.Benchmark(t.Context(), BenchmarkOptions{Split: "test", Limit: 4}); err != nil {
		t.Fatal(err)
	}
	dir := e.Run.Path("benchmark", "sft_lazy.seed1.test.none.4")
	trained, err := e.Result("sft_lazy", 1)
	if err != nil {
		t.Fatal(err)
	}
	if set := summaryOf(t, dir).Info.Settings; set.Weights != trained.Weights || set.Model != "tiny" || set.TrainSeed != 1 || set.Tasks != 4 {
		t.Errorf("settings %+v", set)
	}
	got, want := episodesOf(t, filepath.Join(dir, benchmark.StatesFile)), episodesOf(t, e.Run.Path("episodes", "sft_lazy", "seed1.test.none.greedy.jsonl"))
	if got != want || got == "" {
		t.Errorf("the benchmark's states are not the episodes of evaluation:\n%s\nwant\n%s", got, want)
	}
	for want, b := range map[string]BenchmarkOptions{
		"--recipe: sft_lazy, seed 2, is not trained with these settings": {Split: "test", TrainSeed: 2},
		"--recipe: sft_lazy+grpo, seed 1, is not trained":                {Split: "test", Policy: "sft_lazy+grpo"},
	} {
		if err := e.Benchmark(t.Context(), b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// benchmarker begins the command line of a process that is the script benchmark.
const benchmarker = "benchmark:"

func asBenchmark(line string) error {
	var o Options
	b := BenchmarkOptions{Split: "test"}
	os.Args = append([]string{"benchmark"}, strings.Fields(line)...)
	Flags("benchmark", "a script to be tested", &o, BenchmarkFlags(&o, &b))
	if err := os.Setenv("TOOLROUTE_TEST_KEY", "sk-test"); err != nil {
		return err
	}
	DoBenchmark(o, b)
	return nil
}

// Killed with SIGKILL at random moments while it plays, judges and sums up, over and over, a benchmark ends with the states, results and figures
// of one that was left alone: no task is lost and none is there twice.
func TestBenchmarkKilled(t *testing.T) {
	data, alone, killed := t.TempDir(), t.TempDir(), t.TempDir()
	url, asked := judgeOf(t, time.Millisecond)
	dir := func(out string) string {
		return filepath.Join(out, "smoke", "company", "benchmark", "random_tool.test.soft")
	}
	// written is how far the work is: whole files and those that grow.
	written := func(out string) (n int64) {
		for _, name := range []string{benchmark.StatesFile, benchmark.StatesFile + ".pending", benchmark.ResultsFile, benchmark.SummaryJSON} {
			if info, err := os.Stat(filepath.Join(dir(out), name)); err == nil {
				n += info.Size()
			}
		}
		return n
	}
	// start runs the process to its end, or until so much is written and it is killed.
	start := func(out string, until int64) (was bool) {
		t.Helper()
		cmd := reexec.Command(t, benchmarker+"--suite company --profile smoke --recipe random_tool --out "+out+" --data "+data+" --judge-model generous --judge-url "+url+
			" --set eval.resamples=20 --set judge.key_env=TOOLROUTE_TEST_KEY --set judge.requests_per_minute=0 --set judge.parallel=3")
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for until >= 0 {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("%v\n%s", err, &said)
				}
				return false
			default:
			}
			if written(out) >= until {
				_ = cmd.Process.Kill() // fails where it has ended
				return <-ended != nil
			}
			time.Sleep(100 * time.Microsecond)
		}
		if err := <-ended; err != nil {
			t.Fatalf("%v\n%s", err, &said)
		}
		return false
	}
	start(alone, -1)
	first := len(asked())
	whole := written(alone)
	lines := func(out, name string) []string {
		b, err := os.ReadFile(filepath.Join(dir(out), name))
		if err != nil {
			return nil
		}
		return strings.SplitAfter(string(b), "\n")
	}
	want := lines(alone, benchmark.ResultsFile)
	if len(want) < 30 || first < 10 {
		t.Fatalf("%d results and %d questions in a benchmark that was left alone", len(want)-1, first)
	}
	moments := rng.New(1, "kill/benchmark")
	kills, midway := 0, 0
	const most = 14
	for i := range most {
		if start(killed, int64(moments.IntN(int(whole)*(i+1)/most))) {
			kills++
		}
		// Whatever stands there is a beginning of what has to come out.
		got := lines(killed, benchmark.ResultsFile)
		for j, line := range got {
			if j >= len(want) || !strings.HasPrefix(want[j], line) {
				t.Fatalf("kill %d: line %d of the results is %q, want the beginning of %q", i, j+1, line, want[min(j, len(want)-1)])
			}
		}
		states := max(len(lines(killed, benchmark.StatesFile)), len(lines(killed, benchmark.StatesFile+".pending")))
		if states > 1 && states < len(want) || len(got) > 1 && len(got) < len(want) {
			midway++
		}
	}
	start(killed, -1)
	t.Logf("%d of %d processes were killed, %d of them amid the states or the results", kills, most, midway)
	if kills < 3 || midway < 2 {
		t.Errorf("%d kills, %d amid the files: too few to test anything", kills, midway)
	}
	if got := lines(killed, benchmark.ResultsFile); !slices.Equal(got, want) {
		t.Errorf("%d results after %d kills differ from the %d of a benchmark that was left alone", len(got)-1, kills, len(want)-1)
	}
	if a, b := episodesOf(t, filepath.Join(dir(alone), benchmark.StatesFile)), episodesOf(t, filepath.Join(dir(killed), benchmark.StatesFile)); a != b {
		t.Errorf("the states differ: %d bytes, want %d", len(b), len(a))
	}
	var figures [2]string
	for i, out := range []string{alone, killed} {
		s := summaryOf(t, dir(out))
		for name := range s.Figures { // latencies are measured
			if strings.HasPrefix(name, "policy_") {
				delete(s.Figures, name)
			}
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		figures[i] = string(b)
	}
	if figures[0] != figures[1] {
		t.Errorf("the summaries differ:\n%s\n%s", figures[1], figures[0])
	}
	// A verdict that was given is kept: what a kill costs is what was under way, three questions.
	for code, n := range asked() {
		if n > 2+kills {
			t.Errorf("question %s was asked %d times", code, n)
		}
	}
	total := 0
	for _, n := range asked() {
		total += n
	}
	if most := 2*first + 3*kills; total > most {
		t.Errorf("%d questions in all, want at most %d", total, most)
	}
	if states, err := trajectory.ReadFile(filepath.Join(dir(killed), benchmark.StatesFile)); err != nil || len(states) != len(want)-1 {
		t.Errorf("%d states, error %v", len(states), err)
	}
}
