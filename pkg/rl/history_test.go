package rl

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/train"
)

func TestHistoryReadsWhatItWrote(t *testing.T) {
	points := []EvalPoint{
		{Iteration: 0, Split: "val", Episodes: 100, Values: []train.Metric{{Name: "reward_mean", Value: 0.25}, {Name: "chain_rate", Value: 0}}},
		{Iteration: 0, Split: "val", Temperature: 0.7, Episodes: 100, Values: []train.Metric{{Name: "reward_mean", Value: 0.5}, {Name: "cost_ratio", Value: 1.25}}},
		{Iteration: 5, Split: "val, again", Episodes: 100, Values: []train.Metric{{Name: "reward_mean", Value: 1}}},
	}
	b := HistoryCSV(points)
	got, err := ReadHistory(bytes.NewReader(b))
	if err != nil || !reflect.DeepEqual(got, points) {
		t.Errorf("read %+v, %v\nfrom %s", got, err, b)
	}
	if lines := strings.Split(string(b), "\n"); lines[0] != "iteration,split,temperature,episodes,reward_mean,chain_rate,cost_ratio" || lines[1] != "0,val,0,100,0.25,0," {
		t.Errorf("begins with\n%s\n%s", lines[0], lines[1])
	}
}

func TestHistoryNamesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"": "begins with", "a,b\n": "begins with",
		"iteration,split,temperature,episodes,x\n1,val,0,5,ten\n": `line 2: "ten"`,
		"iteration,split,temperature,episodes,x\n1,val,0\n":       "wrong number of fields",
	} {
		if _, err := ReadHistory(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one about %q", text, err, want)
		}
	}
}

func at(iteration int, split string, temperature, rate float64) EvalPoint {
	return EvalPoint{Iteration: iteration, Split: split, Temperature: temperature, Episodes: 10, Values: []train.Metric{{Name: "chain_rate", Value: rate}}}
}

func TestHistoryOfAllRuns(t *testing.T) {
	other := at(0, "val", 0, 0.5)
	other.Values = append(other.Values, train.Metric{Name: "acc_calc", Value: 0.125})
	runs := []History{
		{Recipe: "a", Seed: 1, Points: []EvalPoint{at(0, "val", 0, 0), at(0, "val", 0.7, 0.25), at(5, "val", 0, 0.5), at(10, "val", 0, 1)}},
		{Recipe: "a", Seed: 2, Points: []EvalPoint{at(0, "val", 0, 0.5), at(5, "val", 0, 0.75)}}, // ended early
		{Recipe: "b", Seed: 1, Points: []EvalPoint{other, at(0, "heldout", 0, 0.25)}},
	}
	want := `recipe,seed,iteration,split,temperature,episodes,chain_rate,acc_calc
a,1,0,val,0,10,0,
a,1,0,val,0.7,10,0.25,
a,1,5,val,0,10,0.5,
a,1,10,val,0,10,1,
a,2,0,val,0,10,0.5,
a,2,5,val,0,10,0.75,
b,1,0,val,0,10,0.5,0.125
b,1,0,heldout,0,10,0.25,
`
	if got := string(HistoriesCSV(runs)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
