package eval

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/table"
)

// Header returns the column names of the results table: the key and the metrics, the ends of their intervals, the suite's
// own columns with theirs, the tasks that pass@k is the mean over, and what a learned row was trained on. Lists of seeds are separated
// by spaces.
func Header(own []Column) []string {
	h := []string{"suite", "method", "model", "split", "budget", "decoding", "temperature", "seeds", "n_tasks", "k"}
	var ends []string
	for i, m := range Metrics {
		h = append(h, m.Name)
		if i == 0 { // success has short names for its ends, beside it
			h = append(h, "success_lo", "success_hi")
		} else {
			ends = append(ends, m.Name+"_lo", m.Name+"_hi")
		}
	}
	h = append(h, ends...)
	for _, c := range own {
		h = append(h, c.Name)
	}
	for _, c := range own {
		if c.MinBy == nil {
			h = append(h, c.Name+"_lo", c.Name+"_hi")
		}
	}
	return append(h, "pass_at_k_tasks", "train_tokens", "train_episodes", "train_wall_s", "train_processed_tokens", "train_demonstrations", "train_seeds",
		"train_demo_worlds", "train_demo_world_seeds", "train_rollout_worlds", "train_rollout_world_seeds")
}

// record returns the row's cells in the order of Header. Numbers have at most six decimals; what is not defined is empty.
func (r *Row) record(own []Column) []string {
	out := []string{
		r.Suite, r.Method, r.Model, r.Split, r.Budget, r.Decoding, Number(r.Temperature),
		strconv.Itoa(r.Seeds), strconv.Itoa(r.Tasks), strconv.Itoa(r.K),
	}
	var ends []string
	for i, v := range r.Values {
		out = append(out, Number(v.Value))
		if i == 0 {
			out = append(out, Number(v.Lo), Number(v.Hi))
		} else {
			ends = append(ends, Number(v.Lo), Number(v.Hi))
		}
	}
	out = append(out, ends...)
	for _, v := range r.Own {
		out = append(out, Number(v.Value))
	}
	for i, v := range r.Own {
		if own[i].MinBy == nil {
			out = append(out, Number(v.Lo), Number(v.Hi))
		}
	}
	out = append(out, strconv.Itoa(r.PassKTasks))
	t := r.Training
	if t == nil {
		return append(out, make([]string, 10)...)
	}
	return append(out, strconv.FormatInt(t.Tokens, 10), strconv.FormatInt(t.Episodes, 10), Number(t.WallSeconds), known(t.Processed), known(t.Demonstrations), list(t.Seeds),
		strconv.Itoa(len(t.DemoWorlds)), list(t.DemoWorlds), strconv.Itoa(len(t.RolloutWorlds)), list(t.RolloutWorlds))
}

// known prints a count. It prints nothing for 0, which stands for an unknown count.
func known(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func list(seeds []uint64) string {
	var out []string
	for _, s := range seeds {
		out = append(out, strconv.FormatUint(s, 10))
	}
	return strings.Join(out, " ")
}

// Number prints a value with at most six decimals, or three significant digits where these are more, the way the CSV files have it:
// "0.5", "1", "" for NaN.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	s := strconv.FormatFloat(v, 'f', max(6, significant(v, 4)), 64)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// ResultsTable is the results table with all its columns, see [Header].
func ResultsTable(rows []Row, own []Column) *table.Table {
	out := table.New(0, Header(own)...)
	for i := range rows {
		out.Add(rows[i].record(own)...)
	}
	return out
}

// SeedsTable is [ResultsTable] for rows of single seeds. The column seed stands in the place of seeds, which counts them.
func SeedsTable(rows []SeedRow, own []Column) *table.Table {
	out := table.New(0, Header(own)...)
	at := slices.Index(out.Header, "seeds")
	out.Header[at] = "seed"
	for i := range rows {
		cells := rows[i].record(own)
		cells[at] = strconv.FormatUint(rows[i].Seed, 10)
		out.Add(cells...)
	}
	return out
}

// leastShown is smaller than any figure of the tables. A value below it is a rounding error.
const leastShown = 1e-9

// significant returns the number of decimals, at least n, that show three significant digits of v. For a rounding error it returns n.
func significant(v float64, n int) int {
	if v = math.Abs(v); v < leastShown || v >= math.Pow10(-n) {
		return n
	}
	return 2 - int(math.Floor(math.Log10(v)))
}

// Decimals prints a value with n decimals for people: "-" where it is not defined, and no sign before a zero. A small value that n decimals
// (two or more) do not show gets three significant digits: a call at 0.00001 is not free.
func Decimals(v float64, n int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	s := strconv.FormatFloat(v, 'f', n, 64)
	if d := significant(v, n); n >= 2 && d > n {
		return strings.TrimRight(strconv.FormatFloat(v, 'f', d, 64), "0")
	}
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// Text prints an interval with n decimals: "0.915 (0.890 to 0.938)", "3.7" where it has no ends, "-" where it is not defined.
func (i Interval) Text(n int) string { return i.text(n, Decimals) }

// Signed is Text for a difference: "+0.040 (-0.010 to +0.090)".
func (i Interval) Signed(n int) string {
	return i.text(n, func(v float64, n int) string {
		s := Decimals(v, n)
		if v > 0 && strings.Trim(s, "0.") != "" {
			s = "+" + s
		}
		return s
	})
}

func (i Interval) text(n int, print func(float64, int) string) string {
	s := print(i.Value, n)
	if math.IsNaN(i.Value) || math.IsNaN(i.Lo) || math.IsNaN(i.Hi) {
		return s
	}
	return s + " (" + print(i.Lo, n) + " to " + print(i.Hi, n) + ")"
}
