package report

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"github.com/toolroute/toolroute/pkg/eval"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

func inputOf(t testing.TB, trs []trajectory.Trajectory) Input {
	t.Helper()
	in := demoInput(trs)
	in.Options.Resamples = 50
	var err error
	if in.Collected, err = eval.Collect(trs, nil); err != nil {
		t.Fatal(err)
	}
	return in
}

func full(t testing.TB) Input {
	in := inputOf(t, demoRun(6))
	in.Dimensions = []eval.Dimension{
		suite.SeenInTraining("phrasing", "phrasing", func(_ string, t *trajectory.Task) bool { return slices.Contains(t.Tags, "unseen_phrasing") }),
		{Name: "heldout_kind", Title: "kind of held-out combination", Of: func(_ string, t *trajectory.Task) []string {
			return slices.DeleteFunc(slices.Clone(t.Tags), func(tag string) bool { return tag == "unseen_phrasing" })
		}},
	}
	p, th := reward.NewProfile(in.Trajectories, 4), reward.DefaultThresholds()
	in.Profiles = []Profile{{"base", p, th, reward.Gate(p, th)}}
	in.Training = []TrainingRun{{"grpo", []MetricsRecord{
		{0, map[string]float64{"reward_mean": 0.1, "reward_std": 0.2, "kl": 0, "entropy": 0.7, "grad_norm": 1, "lr": 1e-4, "zero_variance": 0.5}},
		{1, map[string]float64{"reward_mean": 0.3, "reward_std": 0.2, "kl": 0.01, "entropy": 0.6, "grad_norm": 0.5, "lr": 1e-4, "zero_variance": 0.4}},
	}}}
	in.Pictures = []Picture{{Name: "learning_curve", Title: "Learning curve", Panels: []Panel{{X: "rows", Y: "success rate", Rate: true,
		Lines: []Line{{Name: "sft", X: []float64{0, 100}, Y: []float64{0.1, 0.6}}}}}}}
	return in
}

// Everything that the documentation promises is written, and pictures come as PNG and SVG.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if _, err := Write(dir, full(t)); err != nil {
		t.Fatal(err)
	}
	want := []string{"results_table.md", "results_table.csv", "results_by_difficulty.md", "results_by_combination.md", "results_by_heldout_kind.md",
		"results_by_phrasing.md", "results_by_stratum.csv", "latency.md", "latency.csv", "routing.md", "comparisons.md",
		"trajectories/README.md", "trajectories/trajectories.jsonl", "report.html"}
	for _, p := range []string{"reward_profile", "cost_vs_success", "latency_vs_success", "test_vs_heldout_bars", "routing_matrix", "training_reward",
		"training_kl_entropy", "training_grad", "training_diversity", "learning_curve"} {
		want = append(want, p+".png", p+".svg")
	}
	for i := range 5 {
		want = append(want, fmt.Sprintf("trajectories/solved_%d.md", i+1), fmt.Sprintf("trajectories/failed_%d.md", i+1))
	}
	for _, name := range want {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

// The picture of what training cost is there where it is known, and shows learned rows alone.
func TestTrainingCost(t *testing.T) {
	in := full(t)
	files, err := Files(in)
	if err != nil || files["compute_vs_success.svg"] != nil {
		t.Fatalf("without trained rows: %d bytes, %v", len(files["compute_vs_success.svg"]), err)
	}
	var methods []string
	in.Options.Training = func(k eval.Key, _ []uint64) (eval.Training, bool) {
		if !slices.Contains(methods, k.Method) {
			methods = append(methods, k.Method)
		}
		return eval.Training{Tokens: 3_000_000}, k.Method == methods[0]
	}
	if files, err = Files(in); err != nil || len(methods) < 2 {
		t.Fatal(methods, err)
	}
	page := string(files["report.html"])
	at := strings.Index(page, "Training and success. ")
	if at < 0 || files["compute_vs_success.png"] == nil {
		t.Fatal("no picture of the cost of training")
	}
	said, _, _ := strings.Cut(page[at:], `"`)
	if !strings.Contains(said, methods[0]) || strings.Contains(said, methods[1]) {
		t.Errorf("%s", said)
	}
}

// Tables, page and CSV show no share without a width, say what a learned row was trained on, and list single seeds where a row pools
// several; a report of one seed takes the table of seeds of an earlier one away.
func TestWhatStandsBesideANumber(t *testing.T) {
	var trs []trajectory.Trajectory
	for seed := range uint64(3) {
		for i := range 10 {
			x := newEpisode("sft", fmt.Sprint("t", i), "sql_query", "4821", "sql_query")
			x.Seed = seed + 1
			trs = append(trs, x)
		}
	}
	in := inputOf(t, trs)
	in.Headline, in.Compare = "", nil
	in.Options.Training = func(_ eval.Key, seeds []uint64) (eval.Training, bool) {
		return eval.Training{Seeds: seeds, Demonstrations: 18896, DemoWorlds: []uint64{1, 71, 72}, Tokens: 4309121, Processed: 9000017, Episodes: 9752, RolloutWorlds: []uint64{99}, WallSeconds: 61}, true
	}
	dir := t.TempDir()
	if _, err := Write(dir, in); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const exact = "1.000 (0.692 to 1.000)"
	for name, wants := range map[string][]string{
		"results_table.md":         {"| sft | - | 10 | 3 | " + exact, "| sft | - | 1, 2, 3 | 18896 | 3: 1, 71, 72 | 9752 | 1: 99 | 4309121 | 9000017 | 61 |"},
		"results_by_seed.md":       {"| sft | - | 1 | 10 | " + exact, "| sft | - | 3 | 10 | " + exact, "| sft | - | all 3 | 10 | " + exact},
		"results_by_difficulty.md": {exact},
		"results_table.csv":        {",1,0.691503,1,", ",9000017,18896,1 2 3,3,1 71 72,1,99"},
		"results_by_seed.csv":      {"temperature,seed,n_tasks", ",1,0.691503,1,"},
		"results_by_stratum.csv":   {",1,0.691503,1,"},
		"report.html":              {"0.692 to 1.000", "3: 1, 71, 72", "9000017"},
	} {
		for _, want := range wants {
			if !strings.Contains(read(name), want) {
				t.Errorf("%s lacks %s:\n%.3000s", name, want, read(name))
			}
		}
		for _, never := range []string{"1.000 to 1.000", "0.000 to 0.000", "[1.000, 1.000]"} {
			if strings.Contains(read(name), never) {
				t.Errorf("%s has an interval without width, %s", name, never)
			}
		}
	}
	one := inputOf(t, trs[:10])
	one.Headline, one.Compare = "", nil
	if _, err := Write(dir, one); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results_by_seed.md", "results_by_seed.csv"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s of an earlier report is still there: %v", name, err)
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	a, err := Files(full(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Files(full(t))
	if err != nil {
		t.Fatal(err)
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs between two reports of the same input", name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s is in the second report only", name)
		}
	}
}

func TestInputErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"nothing collected": {func(in *Input) { in.Collected = nil }, "Collected is missing"},
		"no episode":        {func(in *Input) { in.Collected = &eval.Collector{} }, "no episode was collected"},
		"headline":          {func(in *Input) { in.Headline = "sft+gpro" }, `"sft+gpro" has no episodes`},
		"budget":            {func(in *Input) { in.Budget = "firm" }, `budget mode "firm"`},
		"picture name":      {func(in *Input) { in.Pictures = []Picture{{Name: "a/b"}} }, "must be a file name"},
		"picture twice":     {func(in *Input) { in.Pictures = []Picture{{Name: "cost_vs_success"}} }, "another picture has that name"},
		"line lengths": {func(in *Input) {
			in.Pictures = []Picture{{Name: "x", Panels: []Panel{{Lines: []Line{{Name: "l", X: []float64{1}, Y: nil}}}}}}
		}, `line "l" has 1 x, 0 y`},
	} {
		in := inputOf(t, demoRun(2))
		c.change(&in)
		if _, err := Files(in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

// Every table and picture must work for one method, one task and nothing solved.
func TestSmallestRun(t *testing.T) {
	trs := []trajectory.Trajectory{newEpisode("only", "a", "sql_query", "17", "web_search")}
	in := inputOf(t, trs)
	in.Headline, in.Compare = "", nil
	files, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := "| only | - | 1 | 1 | 0.000 (0.000 to 0.975) | 5.000 | - | - | 0.000 | 0.000 | 0.000 | 1.000 | 0.000 | 0.000 | 1 | 1 |"; !strings.Contains(string(files["results_table.md"]), want) {
		t.Errorf("results_table.md lacks %s:\n%s", want, files["results_table.md"])
	}
	if !strings.Contains(string(files["trajectories/README.md"]), "## 0 solved, of 0") || files["trajectories/failed_1.md"] == nil {
		t.Errorf("trajectories/README.md:\n%s", files["trajectories/README.md"])
	}
}

func TestTablesByHand(t *testing.T) {
	trs := []trajectory.Trajectory{
		newEpisode("a", "x", "sql_query", "4821", "sql_query"), newEpisode("a", "y", "doc_search", "17", "doc_search", "web_search"),
		newEpisode("b", "x", "sql_query", "4821", "web_search", "sql_query"), newEpisode("b", "y", "doc_search", "4821", "doc_search"),
	}
	in := inputOf(t, trs)
	in.Headline, in.Compare = "b", []eval.Pair{{Baseline: "a", Later: "b"}}
	files, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"results_table.md": {"| a | - | 2 | 1 | 0.500 (0.000 to 1.000) | 4.000 | 1.000 | 1.000 | 0.125 | 0.000 | 0.000 | 1.500 | 0.500 | 0.500 | 1 | 2 |",
			"| b | - | 2 | 1 | 1.000 (0.158 to 1.000) | 4.000 | 4.000 | 2.667 | 0.250 | 0.000 | 0.000 | 1.500 | 1.000 | 1.000 | 1 | 2 |"},
		"results_by_combination.md": {"| a | - | doc_search | 1 | 0.000 (0.000 to 0.975) | - | - | 2.00 |", "| b | - | sql_query | 1 | 1.000 (0.025 to 1.000) | 6.000 | 6.000 | 2.00 |"},
		"routing.md": {"| doc_search | 1 | 0 | 0 |", "| sql_query | 0 | 0 | 1 |", "50.0% of the episodes called exactly",
			"| web_search | 0 | 1 | 1 | 5 | 0 | 0 | 1 | 0 |"},
		"comparisons.md": {"| b | a | test, soft budget, greedy | 2 | +0.500 (0.000 to +1.000) | no difference shown |", "| 1 | 0 | 1.0000 | 1 | 6.0000 | 1.0000 | 1.0000 | - |"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[name]), want) {
				t.Errorf("%s lacks\n%s\nit is\n%s", name, want, files[name])
			}
		}
	}
}

// Texts of corpora, models or configs must not become markup: not in the page, not in a picture, not in markdown.
func TestEscaping(t *testing.T) {
	trs := hostileRun(40)
	in := inputOf(t, trs)
	in.Title, in.Notes, in.Manifest, in.Compare, in.Headline = hostile, []string{hostile}, []byte(hostile), nil, hostile
	files, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	tags := regexp.MustCompile(`(?i)<(script|img|/script)[^>]*>`)
	own := map[string]int{}
	for _, tag := range tags.FindAllString(string(files["report.html"]), -1) {
		own[tag]++
	}
	for tag, n := range own {
		if want := map[string]int{`<script type="application/json" id="data">`: 1, "<script>": 1, "</script>": 2}[tag]; n != want {
			t.Errorf("the page has %d of %s, want %d", n, tag, want)
		}
	}
	data := regexp.MustCompile(`(?s)id="data">(.*?)</script>`).FindSubmatch(files["report.html"])
	if data == nil || !bytes.Contains(data[1], []byte(`\u003cscript\u003ealert(1)`)) || bytes.ContainsAny(data[1], "<>&\u2028\u2029") {
		t.Error("the data element holds <, >, &, U+2028 or U+2029 as they are, or lacks the texts")
	}
	for name, b := range files {
		if strings.HasSuffix(name, ".svg") || strings.HasSuffix(name, ".md") {
			text := string(b)
			if strings.HasSuffix(name, ".md") {
				text = regexp.MustCompile("(?s)\n```+\n.*?\n```+\n").ReplaceAllString(text, "\n") // fenced: shown as it is
			}
			if tag := regexp.MustCompile(`(?i)<(script|img|/script)`).FindString(text); tag != "" {
				t.Errorf("%s holds %s", name, tag)
			}
		}
	}
	if regexp.MustCompile(`(?i)(src|href)="(https?:)?//`).Match(files["report.html"]) {
		t.Error("the page refers to something outside itself")
	}
}

func TestFencedTextMayHoldFences(t *testing.T) {
	if got, want := Fenced("", "a\n````\nb"), "`````\na\n````\nb\n`````\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Fenced("text", "a ``` b\n\n"), "````text\na ``` b\n````\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPareto(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		x, y []float64
		want []int
	}{
		"dominated":   {[]float64{1, 2, 3, 2}, []float64{0.5, 0.4, 0.9, 0.6}, []int{0, 3, 2}},
		"equal":       {[]float64{1, 1, 1}, []float64{0.5, 0.5, 0.7}, []int{2}},
		"same height": {[]float64{2, 1}, []float64{0.5, 0.5}, []int{1}},
		"undefined":   {[]float64{nan, 2, 3}, []float64{1, nan, 0.1}, []int{2}},
		"none":        {nil, nil, nil},
	} {
		if got := Pareto(c.x, c.y); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Fourteen methods in one corner, as at the start of a project: labels must stay apart, off the points and inside.
func TestLabelsDoNotOverlap(t *testing.T) {
	bounds := box{0, 0, 300, 250}
	var labels []label
	var points []box
	for i := range 14 {
		x, y := 10+float64(i%4)*9, 6+float64(i/4)*7
		l := label{text: "m", w: 60, h: 9}
		l.x, l.y = l.x+bounds.x0, l.y+bounds.y0
		l.x += vg.Length(x)
		l.y += vg.Length(y)
		labels = append(labels, l)
		points = append(points, box{l.x - 3, l.y - 3, l.x + 3, l.y + 3})
	}
	placed := placeLabels(labels, points, bounds)
	for i, a := range placed {
		if a.x0 < bounds.x0 || a.x1 > bounds.x1 || a.y0 < bounds.y0 || a.y1 > bounds.y1 {
			t.Errorf("label %d leaves the picture: %v", i, a)
		}
		for j, b := range placed[:i] {
			if a.overlap(b) > 0 {
				t.Errorf("labels %d and %d overlap", i, j)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		n      int
		want   string
	}{{0, 1, 5, "0 0.2 0.4 0.6 0.8 1.0"}, {-0.02, 1.02, 6, "0 0.2 0.4 0.6 0.8 1.0"}, {0, 12.3, 5, "0 5 10"}, {0, 0.00012, 4, "0 5e-05 0.0001"}, {-1, 1, 4, "-1.0 -0.5 0 0.5 1.0"}} {
		var got []string
		for _, tick := range (fewTicks{c.n}).Ticks(c.lo, c.hi) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("ticks of %v to %v: %v, want %s", c.lo, c.hi, got, c.want)
		}
	}
}

func TestReadMetrics(t *testing.T) {
	got, err := ReadMetrics([]byte(`{"step":1,"values":{"kl":0.5}}
{"step":0,"kl":0.25,"note":"text"}

{"step":1,"values":{"val_success":0.75}}
{"step":2,"va`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "[{0 map[kl:0.25]} {1 map[kl:0.5 val_success:0.75]}]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	got, err = ReadMetrics([]byte("{\"step\":1,\"kl\":NaN,\"note\":\"x\"}\n{\"step\":2,\"kl\":-Infinity,\"lr\":1}\n{\"step\":3,\"kl\":null}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "[{1 map[kl:NaN]} {2 map[kl:NaN lr:1]} {3 map[kl:NaN]}]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for text, want := range map[string]string{"{\"kl\":1}\n": "line 1: no number called step", "{\"step\":1}\nnot json\n{\"step\":2}\n": "line 2"} {
		if _, err := ReadMetrics([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{{"kl", "kl", true}, {"kl", "kl2", false}, {"val_success*", "val_success_seen", true}, {"val/*success*", "val/test/success_rate", true}, {"val/*success*", "val/cost", false}} {
		if got := glob(c.pattern, c.name); got != c.want {
			t.Errorf("glob(%q, %q) = %t", c.pattern, c.name, got)
		}
	}
}

func TestSample(t *testing.T) {
	trs := demoRun(10)
	a := Sample(trs, 100, 1)
	if len(a) != 100 {
		t.Fatalf("%d episodes, want 100", len(a))
	}
	methods := map[string]int{}
	for _, tr := range a {
		methods[tr.Method]++
	}
	if len(methods) != 10 {
		t.Errorf("the sample has %d methods of 10: %v", len(methods), methods)
	}
	reversed := slices.Clone(trs)
	slices.Reverse(reversed)
	b := Sample(reversed, 100, 1)
	slices.Reverse(b)
	for i := range a {
		if a[i].EpisodeID != b[i].EpisodeID {
			t.Fatal("another order of the episodes gives another sample")
		}
	}
	if got := Sample(trs[:3], 100, 1); len(got) != 3 {
		t.Errorf("a sample of 100 of 3 has %d", len(got))
	}
}

func TestTrimmedKeepsTheTotal(t *testing.T) {
	var m eval.Confusion
	for i := range 30 {
		m.Gold = append(m.Gold, fmt.Sprint("g", i))
		m.Used = append(m.Used, fmt.Sprint("g", i))
		line := make([]int, 30)
		line[i], line[(i+1)%30] = i+1, 1
		m.Count = append(m.Count, line)
	}
	total := func(m eval.Confusion) (n int) {
		for _, l := range m.Count {
			if len(l) != len(m.Used) {
				t.Fatalf("a row has %d cells for %d columns", len(l), len(m.Used))
			}
			for _, v := range l {
				n += v
			}
		}
		return n
	}
	got := trimmed(m)
	if len(got.Gold) != maxCombinations+1 || got.Gold[maxCombinations] != "other (10)" || total(got) != total(m) {
		t.Errorf("rows %v, total %d of %d", got.Gold, total(got), total(m))
	}
}
