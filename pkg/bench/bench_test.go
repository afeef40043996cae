package bench

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/tiny"
)

// small is a workload of milliseconds.
func small() Workload {
	return Workload{Name: "small", Config: &lm.Config{Vocab: 40, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 24, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 64, Pad: -1},
		PromptTokens: 8, NewTokens: 6, Batches: []int{1, 3}, TrainRows: 2, TrainLength: 16}
}

func TestRun(t *testing.T) {
	b, err := lm.OpenBackend(lm.KindGo)
	if err != nil {
		t.Fatal(err)
	}
	for _, ratio := range []float64{1e-9, 1e9} {
		r, err := Run(t.Context(), b, []Workload{small()}, Options{TimeLimit: 1, MinDuration: 1, MinSpeedup: ratio})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Models) != 1 || len(r.Models[0].Generation) != 2 || len(r.Checks) != 1 {
			t.Fatalf("%+v", r)
		}
		if want := ratio < 1; r.Pass != want || r.Checks[0].Pass != want {
			t.Errorf("ratio %g of %g wanted: pass %v, want %v", r.Checks[0].Value, ratio, r.Pass, want)
		}
		if !(r.Calibration.Before.GFLOPS > 0) || !(r.Calibration.After.GFLOPS > 0) || r.Backend != lm.KindGo {
			t.Errorf("%+v", r)
		}
		for _, g := range r.Models[0].Generation {
			if !(g.Prefill > 0) || !(g.Overall > 0) || g.First.N != 3 || g.All.N != 3 || g.All.Min > g.All.Median || g.All.Median > g.All.Max {
				t.Errorf("%+v", g)
			}
			if want := float64(g.Batch*5) / g.Rest.Median; math.Abs(g.Decode-want) > 1e-9*want || g.Rest.Max >= g.All.Max {
				t.Errorf("batch %d: %g tokens a second decoding, want %g: %+v", g.Batch, g.Decode, want, g)
			}
			if want := float64(g.Batch*6) / g.All.Median; math.Abs(g.Overall-want) > 1e-9*want {
				t.Errorf("batch %d: %g new tokens a second overall, want %g", g.Batch, g.Overall, want)
			}
		}
		tr := r.Models[0].Training
		if want := 2 * 16 / tr.Step.Median; tr.Step.N != 3 || math.Abs(tr.Tokens-want) > 1e-9*want {
			t.Errorf("%+v, want %g tokens a second", tr, want)
		}
	}
}

func TestRunStops(t *testing.T) {
	b, err := lm.OpenBackend(lm.KindGo)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, b, []Workload{small()}, Options{TimeLimit: 1, MinDuration: 1}); err == nil || !strings.Contains(err.Error(), "bench: small: batch 1: ") {
		t.Errorf("error %v, want one that names workload and batch", err)
	}
}

func TestTimingsPreferUndisturbed(t *testing.T) {
	m := &meter{opt: Options{}.withDefaults(), until: time.Now().Add(time.Hour)}
	var got timings
	for i, s := range []sample{{[]float64{9}, 0.5}, {[]float64{1}, 0.01}, {[]float64{2}, 0.08}, {[]float64{8}, 0.3}} {
		if got.add(s, m) {
			t.Fatalf("enough after %d samples of which two were undisturbed", i+1)
		}
	}
	if !got.add(sample{[]float64{3}, 0}, m) {
		t.Fatal("not enough with three undisturbed samples")
	}
	want := Timing{Median: 2, Min: 1, Max: 3, N: 3, OthersShare: 0.08, Clean: true, Discarded: 2}
	if g := got.timing(m, 0); g != want {
		t.Errorf("got %+v\nwant %+v", g, want)
	}
}

func TestTimingsOfABusyMachine(t *testing.T) {
	busy := []sample{{[]float64{9}, 0.5}, {[]float64{1}, 0.4}, {[]float64{2}, 0.3}, {[]float64{3}, 0.2}}
	late := &meter{opt: Options{}.withDefaults(), until: time.Now().Add(-time.Hour)}
	var got timings
	for i, s := range busy[:3] {
		if done := got.add(s, late); done != (i == 2) {
			t.Errorf("past the limit, enough after %d samples: %v", i+1, done)
		}
	}
	early := &meter{opt: late.opt, until: time.Now().Add(time.Hour)}
	got = timings{}
	n := 0
	for !got.add(busy[n%4], early) {
		n++
	}
	g := got.timing(early, 0)
	if g.Clean || g.N != 3 || g.OthersShare != 0.2 || g.Median != 3 || g.Discarded != 9 {
		t.Errorf("after %d samples: %+v; want the three with the smallest share, marked", n+1, g)
	}
}

// The median of an even number lies between the middle two.
func TestMedianOfEven(t *testing.T) {
	m := &meter{opt: Options{Repetitions: 4, OthersShare: 1}}
	got := timings{[]sample{{[]float64{1}, 0}, {[]float64{2}, 0}, {[]float64{4}, 0}, {[]float64{9}, 0}}}
	if g := got.timing(m, 0); g.Median != 3 {
		t.Errorf("median %g, want 3", g.Median)
	}
}

func TestShareOfOwnWork(t *testing.T) {
	if busySeconds() < 0 {
		t.Skip("this system does not tell what other processes take")
	}
	s := start()
	x := 1.0
	for time.Since(s.at) < 100*time.Millisecond {
		x = math.Sqrt(x + 1)
	}
	got := s.stop()
	if got.walls[0] < 0.1 || got.others < 0 || got.others > 1 || x == 0 {
		t.Errorf("%+v", got)
	}
}

func TestInsert(t *testing.T) {
	var r Report
	r.Backend = "xla:cpu"
	r.Models = []Model{{Name: "m", Prompt: 256, New: 128, Generation: []Generate{{Batch: 8, Prefill: 1000, Decode: 200, Overall: 150, First: Timing{Median: 2, Clean: true}, Rest: Timing{Median: 8, OthersShare: 0.21}, All: Timing{Median: 10, OthersShare: 0.21}}}, Training: Training{Rows: 8, Length: 256, Tokens: 4000, Step: Timing{Clean: true, OthersShare: -1}}}}
	r.Checks = []Check{{Name: "c", Value: 5.5, Want: 6}}
	file := "# Title\n\n" + beginMark + "\nold table\n" + endMark + "\n\nafter\n"
	once, err := Insert([]byte(file), r)
	if err != nil {
		t.Fatal(err)
	}
	text := string(once)
	for _, want := range []string{"# Title\n\n" + beginMark, endMark + "\n\nafter\n", "| m | batch 8: prefill of 256 | 1000 |", "| m | batch 8: decode of 127 | 200 | 150 with the prefill |",
		"21% !", "training, 8 × 256 a step | 4000", "unknown |", "5.5 times the tokens per second; at least 6.0 wanted: **not met**", "not comparable"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "old table") {
		t.Error("the old table is still there")
	}
	twice, err := Insert(once, r)
	if err != nil || string(twice) != text {
		t.Errorf("inserting again changes the file (%v):\n%s", err, twice)
	}
	if _, err := Insert([]byte("# no marks"), r); err == nil {
		t.Error("a file without marks is accepted")
	}
}

// The documented workloads fit their models.
func TestStandardFits(t *testing.T) {
	for _, quick := range []bool{false, true} {
		for _, w := range Standard(tiny.Preset{Hidden: 96, Layers: 4, Heads: 3, KVHeads: 1, HeadDim: 32, FFN: 256, RopeTheta: 1e4, MaxPositions: 512}, 9, []int{64, 256}, quick) {
			if w.PromptTokens+w.NewTokens > w.Config.MaxPositions || w.TrainLength > w.Config.MaxPositions || w.Batches[0] != 1 || w.Batches[len(w.Batches)-1] != 32 {
				t.Errorf("%+v", w)
			}
		}
	}
}

func ExampleRun() {
	b, err := lm.OpenBackend(lm.KindGo)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := Run(context.Background(), b, []Workload{small()}, Options{TimeLimit: time.Nanosecond, MinDuration: time.Nanosecond})
	fmt.Println(r.Models[0].Name, r.Models[0].Generation[1].Batch, r.Models[0].Generation[1].Decode > 0, err)
	// Output: small 3 true <nil>
}

func TestFoundInHoldsNoPath(t *testing.T) {
	for why, want := range map[string]string{
		"/home/ada/p/.local/xla-cpu/plugin.so (the project's .local/xla-cpu)": "the project's .local/xla-cpu", "built in": "built in",
	} {
		if got := foundIn(why); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}
