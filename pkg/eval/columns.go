package eval

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"
)

// Header returns the column names of the results table: the key and the metrics, the ends of their intervals, the suite's
// own columns with theirs, and what a learned row cost to train.
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
	return append(h, "train_tokens", "train_episodes", "train_wall_s")
}

// Record returns the row's cells in the order of Header. Numbers have at most six decimals; what is not defined is empty.
func (r *Row) Record(own []Column) []string {
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
	if t := r.Training; t != nil {
		return append(out, strconv.FormatInt(t.Tokens, 10), strconv.FormatInt(t.Episodes, 10), Number(t.WallSeconds))
	}
	return append(out, "", "", "")
}

// Number prints a value with at most six decimals, the way the CSV files have it: "0.5", "1", "" for NaN.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	s := strconv.FormatFloat(v, 'f', 6, 64)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// WriteCSV writes the results table.
func WriteCSV(w io.Writer, rows []Row, own []Column) error {
	out := csv.NewWriter(w)
	if err := out.Write(Header(own)); err != nil {
		return err
	}
	for i := range rows {
		if err := out.Write(rows[i].Record(own)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
