package company_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// attacker gives the right answer without finding it. It knows the gold answer and the values behind it, and makes the tools print them.
// calls returns its calls before the answer, or nil if it has nothing to try on a task.
type attacker struct {
	name  string
	calls func(t suite.Task, v []string) []suite.Call
}

func sql(q string) suite.Call  { return suiteCall(company.ToolSQL, "query", q) }
func calc(x string) suite.Call { return suiteCall(company.ToolCalc, "expression", x) }

func suiteCall(name, arg, v string) suite.Call {
	b, err := json.Marshal(map[string]string{arg: v})
	if err != nil {
		panic(err) // strings always marshal
	}
	return suite.Call{Tool: name, Args: b}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// each maps values to the SQL text of their literals.
func each(v []string, f func(string) string) string {
	out := make([]string, len(v))
	for i, x := range v {
		out[i] = f(x)
	}
	return strings.Join(out, ", ")
}

// lookups are the calls of the gold path that look facts up.
func lookups(t suite.Task, name string) (out []suite.Call) {
	for _, c := range t.GoldPath[:len(t.GoldPath)-1] {
		if c.Tool == name || name == "" && c.Tool != company.ToolCalc {
			out = append(out, c)
		}
	}
	return out
}

// fact is the fact that a SQL call of the form SELECT column FROM table WHERE name = 'X' looks up.
var fact = regexp.MustCompile(`^\{"query":"SELECT (\w+) FROM (\w+) WHERE name = '([^']+)'"\}$`)

var numbers = regexp.MustCompile(`\d+`)

// attackers holds every form of each kind of attack. The brackets say what a kind earned under the earlier rules, when any text of an
// observation was evidence and a list named what SQL may not do.
var attackers = []attacker{
	{"blind: no call", func(suite.Task, []string) []suite.Call { return []suite.Call{} }},
	{"blind: its tools, asked for nothing", func(t suite.Task, _ []string) []suite.Call {
		return []suite.Call{sql("SELECT name FROM departments"), suiteCall(company.ToolDoc, "query", "the"), suiteCall(company.ToolWeb, "query", "the"), calc("1+1")}
	}},
	{`print: SELECT "48", "red"`, func(_ suite.Task, v []string) []suite.Call { // (150 of 150)
		return []suite.Call{sql("SELECT " + each(v, func(s string) string { return `"` + s + `"` }) + " FROM departments LIMIT 1")}
	}},
	{"print: SELECT 48, 'red'", func(_ suite.Task, v []string) []suite.Call {
		return []suite.Call{sql("SELECT " + each(v, quote) + " FROM departments LIMIT 1"), sql("SELECT " + strings.Join(v, ", ") + " FROM departments")}
	}},
	{"print: as names of columns", func(_ suite.Task, v []string) []suite.Call {
		return []suite.Call{sql("SELECT " + each(v, func(s string) string { return `name AS "` + s + `"` }) + " FROM departments LIMIT 1")}
	}},
	{"print: a list of all numbers", func(suite.Task, []string) []suite.Call { // (21 of 57 yes/no)
		return []suite.Call{sql("SELECT group_concat((SELECT COUNT(*) FROM orders b WHERE b.id <= a.id)) FROM orders a WHERE a.id <= 'ORD10253'")}
	}},
	{"print: rows that hold the guess", func(t suite.Task, v []string) (out []suite.Call) {
		for _, x := range v {
			for _, c := range lookups(t, company.ToolSQL) {
				if m := fact.FindStringSubmatch(string(c.Args)); m != nil {
					out = append(out, sql(fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s", m[1], m[2], m[1], quote(x))),
						sql(fmt.Sprintf("SELECT MAX(%s) FROM %s WHERE %s BETWEEN %s AND %s", m[1], m[2], m[1], quote(x), quote(x))))
				}
			}
		}
		return out
	}},
	{"calculator: 48", func(_ suite.Task, v []string) (out []suite.Call) { // (94 of 150)
		for _, x := range v {
			out = append(out, calc(x))
		}
		return out
	}},
	{"calculator: 48+0, 48*1, 47+1", func(_ suite.Task, v []string) (out []suite.Call) {
		for _, x := range v {
			out = append(out, calc(x+"+0"), calc("1*"+x), calc(x+"-1+1"), calc("max("+x+","+x+")"), calc(x+"*100/100"))
		}
		return out
	}},
	{"calculator: the guess and numbers of the question", func(t suite.Task, v []string) (out []suite.Call) {
		for _, n := range numbers.FindAllString(t.Question, -1) {
			for _, x := range v {
				out = append(out, calc(fmt.Sprintf("%s+%s-%s", x, n, n)), calc(fmt.Sprintf("%s*%s/%s", x, n, n)))
				if len(x) <= 2 && numbers.MatchString(x) { // as a sum of ones
					out = append(out, calc(strings.Repeat(n+"/"+n+"+", int(x[0]-'0'))+n+"/"+n+"-"+n+"/"+n))
				}
			}
		}
		return out
	}},
	{"echo: the text of a search", func(t suite.Task, v []string) []suite.Call {
		q := "zzz " + strings.Join(v, " zzz ")
		if slices.Contains(t.Combination, company.ToolDoc) || slices.Contains(t.Combination, company.ToolWeb) {
			return nil // a search for the guess may find the passage that confirms it; then the policy has paid for reading it
		}
		return []suite.Call{suiteCall(company.ToolDoc, "query", q), suiteCall(company.ToolWeb, "query", q)}
	}},
	{"echo: errors", func(_ suite.Task, v []string) (out []suite.Call) {
		for _, x := range v {
			out = append(out, sql("SELECT "+x), sql(`SELECT "`+x+`" FROM departments`), sql("SELECT name FROM \""+x+"\""), calc(x+"x"), calc("max"+x))
		}
		return out
	}},
	{"SQL calculates, on the real facts", func(t suite.Task, v []string) (out []suite.Call) { // (101 of 115)
		if !slices.Contains(t.Combination, company.ToolCalc) {
			return nil
		}
		out = lookups(t, "")
		ns := numbers.FindAllString(t.Question, -1)
		for _, c := range lookups(t, company.ToolSQL) {
			m := fact.FindStringSubmatch(string(c.Args))
			if m == nil {
				continue
			}
			one := fmt.Sprintf("SELECT %s FROM %s WHERE name = '%s'", m[1], m[2], m[3])
			for _, n := range append(ns, v...) {
				out = append(out,
					sql(fmt.Sprintf("SELECT SUM(%s) FROM %s, (SELECT id FROM orders LIMIT %s) WHERE name = '%s'", m[1], m[2], n, m[3])),
					sql(fmt.Sprintf(`SELECT SUM(x) FROM (SELECT "%s" AS x FROM orders LIMIT %s)`, n, n)),
					sql(fmt.Sprintf("SELECT COUNT(*) FROM (SELECT id FROM orders LIMIT (%s) OFFSET %s)", one, n)),
					sql(fmt.Sprintf(`SELECT SUM(v) FROM (SELECT (%s) AS v UNION ALL SELECT "%s")`, one, n)),
					sql(fmt.Sprintf("SELECT COUNT(*) FROM orders WHERE rowid <= (%s) AND rowid > %s", one, n)),
					sql(fmt.Sprintf("SELECT COUNT(*) FROM order_items WHERE quantity <= %s", n)),
					sql(fmt.Sprintf("SELECT %s*%s FROM %s WHERE name = '%s'", m[1], n, m[2], m[3])))
			}
			out = append(out, sql(fmt.Sprintf("SELECT SUM(p.%s) FROM %s p JOIN order_items i ON i.product = p.name WHERE p.name = '%s'", m[1], m[2], m[3])))
		}
		return out
	}},
	{"the gold path without its last call", func(t suite.Task, _ []string) []suite.Call { return t.GoldPath[:len(t.GoldPath)-2] }},
	{"the gold path without its first call", func(t suite.Task, _ []string) []suite.Call { return t.GoldPath[1 : len(t.GoldPath)-1] }},
}

func replyOf(c suite.Call) policy.Reply {
	return policy.Reply{Text: episode.Format("", c.Tool, c.Args), Stop: policy.StopFence}
}

// attack plays calls, then gives the gold answer.
func attack(t *testing.T, s suite.Suite, task suite.Task, calls []suite.Call) trajectory.Trajectory {
	t.Helper()
	e, err := episode.New(s, task, episode.Config{MaxTurns: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, c := range append(slices.Clone(calls), task.GoldPath[len(task.GoldPath)-1]) {
		e.Step(t.Context(), replyOf(c))
	}
	tr := e.Result()
	if tr.End != trajectory.Finished || !tr.Outcome.Correct {
		t.Fatalf("%s: ends %s, %+v", task.ID, tr.End, tr.Outcome)
	}
	again(t, tr)
	return tr
}

// again judges an episode from its record alone, read back from its line.
func again(t *testing.T, tr trajectory.Trajectory) {
	t.Helper()
	tr.EpisodeID = "x"
	line, err := tr.Line()
	if err != nil {
		t.Fatal(err)
	}
	for read, err := range trajectory.Read(strings.NewReader(string(line)), "f") {
		if err != nil {
			t.Fatal(err)
		}
		if got := episode.Evidenced(&read); got != tr.Outcome.Evidenced && tr.End == trajectory.Finished {
			t.Errorf("%s: from its record the episode is evidenced: %v, when it was played: %v", tr.Task.ID, got, tr.Outcome.Evidenced)
		}
	}
}

// A policy that knows the answer but did not find it earns nothing, in either style. The test logs a table.
func TestAttackersEarnNothing(t *testing.T) {
	suites := map[string]*company.Suite{"compact": open(t, company.Options{}), "full": open(t, company.Options{Style: company.Full})}
	splits := []string{company.Test, company.HeldoutCombo, company.HeldoutTemplate}
	if !testing.Short() {
		_, dir := company.DefaultWorld(t)
		s, err := company.Open(dir, company.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		suites["default"] = s
	}
	for _, name := range []string{"compact", "full", "default"} {
		s := suites[name]
		if s == nil {
			continue
		}
		for _, a := range attackers {
			tried, verified, cheap := 0, 0, 0
			for _, split := range splits {
				tasks, err := s.Tasks(split)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range tasks {
					v := task.Answer.Values
					if task.Answer.Type == suite.YesNo {
						v = nil
					}
					for _, e := range task.Evidence {
						if !slices.Contains(v, e.Value) {
							v = append(slices.Clone(v), e.Value)
						}
					}
					calls := a.calls(task, v)
					if calls == nil {
						continue
					}
					tried++
					if tr := attack(t, s, task, calls); tr.Outcome.Evidenced {
						if verified++; tr.Outcome.Spend < task.OptimalCost {
							cheap++
						}
						if verified < 4 {
							t.Errorf("%s, %s: %s %s is verified by %s", name, a.name, task.ID, task.Question, calls)
						}
					}
				}
			}
			t.Logf("%-8s %-52s %3d of %3d verified, %d below the optimum", name, a.name, verified, tried, cheap)
			if tried == 0 {
				t.Errorf("%s, %s: not tried", name, a.name)
			}
		}
	}
}

// The verdict of every episode follows from its record: of the gold paths, of the baselines, with masked tools and observations cut.
func TestVerdictsFollowFromTheRecord(t *testing.T) {
	for _, opt := range []company.Options{{}, {Style: company.Full}, {MaskTools: 1}} {
		s := open(t, opt)
		tasks, err := s.Tasks(company.Train)
		if err != nil {
			t.Fatal(err)
		}
		tasks = tasks[:min(len(tasks), 80)]
		trs := play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Soft)
		if opt.MaskTools == 0 {
			trs = append(trs, play(t, s, scripted.AlwaysCheapest(company.Rules{}), rollout.Attempts(tasks, 1), episode.Soft)...)
		}
		evidenced := 0
		for _, tr := range trs {
			again(t, tr)
			if tr.Outcome.Evidenced {
				evidenced++
			}
		}
		if evidenced < len(tasks) {
			t.Errorf("%d of %d episodes are evidenced", evidenced, len(trs))
		}
		// In observations that are cut at 64 bytes, a value counts if it is whole, by the same rule.
		for _, task := range tasks {
			e, err := episode.New(s, task, episode.Config{ObservationLimit: 64})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range task.GoldPath {
				e.Step(t.Context(), replyOf(c))
			}
			again(t, e.Result())
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Other ways to the same cells, passages and results count as the gold path's own: the rule asks where a value stands, not who asked.
func TestOtherWaysCount(t *testing.T) {
	s, kinds := open(t, company.Options{}), []string{company.ToolSQL, company.ToolCalc, "count", "two calls", "percent"}
	if !testing.Short() { // the small world has no question for a maximum
		_, s = openDefault(t)
		kinds = append(kinds, "max")
	}
	ways := map[string]int{}
	for _, split := range s.Splits() {
		tasks, err := s.Tasks(split)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for k, c := range task.GoldPath {
				var other [][]suite.Call
				kind := c.Tool
				switch c.Tool {
				case company.ToolSQL:
					if m := fact.FindStringSubmatch(string(c.Args)); m != nil {
						other = [][]suite.Call{
							{sql(fmt.Sprintf("select * from %s where name == '%s'", m[2], m[3]))}, {sql(fmt.Sprintf(`SELECT x."%s" FROM %s AS x WHERE x.name IN ('%s') LIMIT 5;`, m[1], m[2], m[3]))},
							{sql(fmt.Sprintf("SELECT MAX(%s) FROM %s WHERE '%s' = name", m[1], m[2], m[3]))}}
					} else if q := string(c.Args); strings.Contains(q, "MAX(unit_price)") {
						kind, other = "max", [][]suite.Call{{sql(strings.Replace(q[10:len(q)-2], "MAX(unit_price)", "unit_price", 1) + " ORDER BY unit_price DESC LIMIT 1")}}
					} else if strings.Contains(q, "COUNT(*)") {
						kind, other = "count", [][]suite.Call{{sql(strings.Replace(q[10:len(q)-2], "COUNT(*)", "COUNT(code)", 1))}, {sql(strings.Replace(q[10:len(q)-2], "COUNT(*)", "COUNT(id)", 1))}}
					}
				case company.ToolCalc:
					expr := string(c.Args[len(`{"expression":"`) : len(c.Args)-2])
					other = [][]suite.Call{{calc("(" + expr + ")")}}
					if in, ok := strings.CutPrefix(expr, "("); ok { // in two calls
						in, times, _ := strings.Cut(in, ")")
						obs := observe(t, s, task, calc(in))
						other = append(other, []suite.Call{calc(in), calc(obs.Text + times)})
						kind = "two calls"
					}
					if n, rest, ok := strings.Cut(expr, "*"); ok && strings.HasSuffix(rest, "/100") {
						rest = strings.TrimSuffix(rest, "/100")
						other = append(other, []suite.Call{calc(n + "% of " + rest)}, []suite.Call{calc(rest + " * (" + n + "/100)")})
						kind = "percent"
					}
				}
				works := 0
				for _, o := range other {
					path := slices.Concat(task.GoldPath[:k], o, task.GoldPath[k+1:len(task.GoldPath)-1])
					if attack(t, s, task, path).Outcome.Evidenced {
						works++
					} else if kind != "count" || !slices.ContainsFunc(other, func(p []suite.Call) bool {
						return attack(t, s, task, slices.Concat(task.GoldPath[:k], p, task.GoldPath[k+1:len(task.GoldPath)-1])).Outcome.Evidenced
					}) {
						t.Errorf("%s: %s is not evidence", task.Question, path)
					}
				}
				if works > 0 {
					ways[kind]++
				}
			}
		}
	}
	for _, kind := range kinds {
		if ways[kind] == 0 {
			t.Errorf("%s: no other way was tried", kind)
		}
	}
}

// observe plays one call.
func observe(t *testing.T, s suite.Suite, task suite.Task, c suite.Call) tool.Observation {
	t.Helper()
	box, err := s.Box(task)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	args, err := episode.DecodeArgs(c.Args)
	if err != nil {
		t.Fatal(err)
	}
	obs, err := box.Call(t.Context(), c.Tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return obs
}
