package bench

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm"
)

// Timing is what one call takes, in seconds of wall-clock time.
type Timing struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
	// OthersShare is the largest share of the machine's processor time, from 0 to 1, that other processes took during a kept
	// timing. It is -1 if the system does not tell. Clean says that it stayed within the limit of the options.
	OthersShare float64 `json:"others_share"`
	Clean       bool    `json:"clean"`
	// Discarded is the number of timings that were disturbed and repeated.
	Discarded int `json:"discarded"`
}

// Calibration is the present speed of the machine, through the same backend. Compare two reports only if their calibrations agree.
type Calibration struct {
	GFLOPS      float64 `json:"matmul_gflops"` // of a product of two square float32 matrices
	Size        int     `json:"matmul_size"`
	OthersShare float64 `json:"others_share"`
}

type meter struct {
	opt   Options
	until time.Time
}

// stopwatch is a running measurement. It holds the time at its start, and the processor times, in seconds, of the machine and of this
// process.
type stopwatch struct {
	at        time.Time
	busy, own float64
}

// sample is one timing: the seconds of each part of the work, and the share of other processes during all of it.
type sample struct {
	walls  []float64
	others float64
}

func start() stopwatch { return stopwatch{time.Now(), busySeconds(), ownSeconds()} }

func (s stopwatch) stop() sample {
	wall := time.Since(s.at).Seconds()
	others := -1.0
	if s.busy >= 0 && wall > 0 {
		others = min(1, max(0, (busySeconds()-s.busy-(ownSeconds()-s.own))/(wall*float64(runtime.NumCPU()))))
	}
	return sample{[]float64{wall}, others}
}

// timings collects samples until enough are undisturbed or time is up.
type timings struct{ all []sample }

// add takes a sample and reports whether there are enough.
func (t *timings) add(s sample, m *meter) bool {
	t.all = append(t.all, s)
	clean := 0
	for _, s := range t.all {
		if s.others <= m.opt.OthersShare {
			clean++
		}
	}
	return clean >= m.opt.Repetitions || len(t.all) >= m.opt.Repetitions && (time.Now().After(m.until) || len(t.all) >= 4*m.opt.Repetitions)
}

// timing is the median of one part over the least disturbed samples. Among samples within the limit it takes the earliest, because
// the fastest would make the numbers look better than they are.
func (t *timings) timing(m *meter, part int) Timing {
	kept := slices.Clone(t.all)
	slices.SortStableFunc(kept, func(a, b sample) int {
		return cmp.Compare(max(a.others, m.opt.OthersShare), max(b.others, m.opt.OthersShare))
	})
	kept = kept[:min(m.opt.Repetitions, len(kept))]
	out := Timing{N: len(kept), Discarded: len(t.all) - len(kept), OthersShare: -1, Clean: true}
	var walls []float64
	for _, s := range kept {
		walls = append(walls, s.walls[part])
		out.OthersShare = max(out.OthersShare, s.others)
		out.Clean = out.Clean && s.others <= m.opt.OthersShare
	}
	slices.Sort(walls)
	out.Min, out.Max = walls[0], walls[len(walls)-1]
	out.Median = (walls[(len(walls)-1)/2] + walls[len(walls)/2]) / 2
	return out
}

// timed calls fn once without measuring, and then until enough timings were undisturbed. It returns a timing of each part whose
// seconds fn returns. It never pauses, because an idle processor is slow at first.
func (m *meter) timed(ctx context.Context, fn func() (parts []float64, err error)) ([]Timing, error) {
	var t timings
	began := time.Now()
	if _, err := fn(); err != nil {
		return nil, err
	}
	calls := 1 + int(m.opt.MinDuration/max(time.Since(began), time.Microsecond))
	for {
		var sums []float64
		s := start()
		for range calls {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			parts, err := fn()
			if err != nil {
				return nil, err
			}
			for i, v := range parts {
				if i == len(sums) {
					sums = append(sums, 0)
				}
				sums[i] += v / float64(calls)
			}
		}
		got := s.stop()
		got.walls = sums
		if t.add(got, m) {
			var out []Timing
			for i := range sums {
				out = append(out, t.timing(m, i))
			}
			return out, nil
		}
	}
}

// calibrate measures products of square matrices. A call makes four of them, so that reading the result hardly counts.
func calibrate(b *lm.Backend) (Calibration, error) {
	const products = 4
	size, calls := 1024, 8
	if b.Kind == lm.KindGo { // about a fiftieth of the speed
		size, calls = 256, 5
	}
	out := Calibration{Size: size}
	p, err := lm.NewProgram(b, "calibration", func(in []*graph.Node) []*graph.Node {
		x := in[0]
		for range products {
			x = graph.MatMul(x, in[0])
		}
		return []*graph.Node{x}
	})
	if err != nil {
		return out, err
	}
	defer p.Close()
	values := make([]float32, size*size)
	for i := range values { // rows of the product stay of the size of 1
		values[i] = float32(i%7-3) / (2 * float32(size))
	}
	a := tensors.FromFlatDataAndDimensions(values, size, size)
	defer lm.Free(a)
	call := func() error {
		res, err := p.Call(a)
		if err != nil {
			return err
		}
		defer lm.Free(res...)
		_, err = lm.Floats(res[0])
		return err
	}
	if err := call(); err != nil {
		return out, err
	}
	var walls []float64
	whole := start()
	for range calls {
		s := start()
		if err := call(); err != nil {
			return out, err
		}
		walls = append(walls, s.stop().walls[0])
	}
	out.OthersShare = whole.stop().others
	slices.Sort(walls)
	out.GFLOPS = products * 2 * float64(size) * float64(size) * float64(size) / walls[len(walls)/2] / 1e9
	return out, nil
}

// busySeconds is the processor time that all processes together have used, over all cores. It is -1 if the system does not tell.
func busySeconds() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return -1
	}
	line, _, _ := strings.Cut(string(b), "\n")
	const ticks = 100 // a second, on every Linux that Go runs on
	total := 0.0
	for i, f := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name, idle, waiting for disks, guests (counted already)
			continue
		}
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return -1
		}
		total += v / ticks
	}
	return total
}

// ownSeconds is the processor time of this process.
func ownSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// field returns the value of the first line "name : value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
