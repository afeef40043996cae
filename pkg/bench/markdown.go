package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// The lines of a Markdown file between which the tables stand.
const (
	beginMark = "<!-- bench: generated, do not edit -->"
	endMark   = "<!-- /bench -->"
)

// Insert replaces what stands between the two marks of a Markdown file by the tables of a report.
func Insert(file []byte, r Report) ([]byte, error) {
	before, rest, ok := bytes.Cut(file, []byte(beginMark+"\n"))
	if !ok {
		return nil, fmt.Errorf("no line %q", beginMark)
	}
	_, after, ok := bytes.Cut(rest, []byte(endMark))
	if !ok {
		return nil, errors.New("no line " + endMark + " after the first mark")
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s%s\n%s%s%s", before, beginMark, r.Markdown(), endMark, after)
	return out.Bytes(), nil
}

// Markdown is the report as tables.
func (r Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nBackend %s; %s, %d CPUs, %s/%s, %s. ", r.Backend, orUnknown(r.Machine.CPU), r.Machine.CPUs, r.Machine.OS, r.Machine.Arch, r.Machine.Go)
	fmt.Fprintf(&b, "Calibration (float32 matrix product of %d²): %.0f GFLOP/s before, %.0f after.\n\n", r.Calibration.Before.Size, r.Calibration.Before.GFLOPS, r.Calibration.After.GFLOPS)
	fmt.Fprint(&b, "| model | work | tokens/s | of which | seconds: median (min–max) of n | others' share |\n| --- | --- | ---: | --- | --- | ---: |\n")
	for _, m := range r.Models {
		for _, g := range m.Generation {
			fmt.Fprintf(&b, "| %s | batch %d: prefill of %d | %.0f | | %s | %s |\n", m.Name, g.Batch, m.Prompt, g.Prefill, seconds(g.First), share(g.First))
			fmt.Fprintf(&b, "| %s | batch %d: decode of %d | %.0f | %.0f with the prefill | %s | %s |\n", m.Name, g.Batch, m.New-1, g.Decode, g.Overall, seconds(g.Rest), share(g.Rest))
		}
		t := m.Training
		fmt.Fprintf(&b, "| %s | training, %d × %d a step | %.0f | | %s | %s |\n", m.Name, t.Rows, t.Length, t.Tokens, seconds(t.Step), share(t.Step))
	}
	fmt.Fprintln(&b)
	for _, m := range r.Models {
		fmt.Fprintf(&b, "- %s: %.2fM parameters (%s)\n", m.Name, float64(m.Parameters)/1e6, m.Shape)
	}
	for _, c := range r.Checks {
		verdict := "met"
		if !c.Pass {
			verdict = "**not met**"
		}
		fmt.Fprintf(&b, "- %s: %.1f times the tokens per second; at least %.1f wanted: %s\n", c.Name, c.Value, c.Want, verdict)
	}
	if !r.clean() {
		fmt.Fprint(&b, "- Other processes used more of the machine than allowed during the timings marked with !: they are not comparable.\n")
	}
	fmt.Fprintln(&b)
	return b.String()
}

func (r Report) clean() bool {
	for _, m := range r.Models {
		for _, g := range m.Generation {
			if !g.All.Clean {
				return false
			}
		}
		if !m.Training.Step.Clean {
			return false
		}
	}
	return true
}

func seconds(t Timing) string {
	return fmt.Sprintf("%.3g (%.3g–%.3g) of %d", t.Median, t.Min, t.Max, t.N)
}

func share(t Timing) string {
	if t.OthersShare < 0 {
		return "unknown"
	}
	mark := ""
	if !t.Clean {
		mark = " !"
	}
	return fmt.Sprintf("%.0f%%%s", 100*t.OthersShare, mark)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown processor"
	}
	return s
}
