package stage

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/train"
)

func TestHistoryReadsWhatItWrote(t *testing.T) {
	looks := []Look{
		{Iteration: 0, Split: "val", Episodes: 100, Values: []train.Metric{{Name: "reward_mean", Value: 0.25}, {Name: "chain_rate", Value: 0}}},
		{Iteration: 0, Split: "val", Temperature: 0.7, Episodes: 100, Values: []train.Metric{{Name: "reward_mean", Value: 0.5}, {Name: "cost_ratio", Value: 1.25}}},
		{Iteration: 5, Split: "val, again", Episodes: 100, Values: []train.Metric{{Name: "reward_mean", Value: 1}}},
	}
	b := historyCSV(looks)
	got, err := readHistory(bytes.NewReader(b))
	if err != nil || !reflect.DeepEqual(got, looks) {
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
		if _, err := readHistory(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one about %q", text, err, want)
		}
	}
}

func look(iteration int, split string, temperature, rate float64) Look {
	return Look{Iteration: iteration, Split: split, Temperature: temperature, Episodes: 10, Values: []train.Metric{{Name: "chain_rate", Value: rate}}}
}

func TestHistoryOfAllRuns(t *testing.T) {
	other := look(0, "val", 0, 0.5)
	other.Values = append(other.Values, train.Metric{Name: "acc_calc", Value: 0.125})
	rs := reinforcements{
		{recipe: "a", seed: 1, looks: []Look{look(0, "val", 0, 0), look(0, "val", 0.7, 0.25), look(5, "val", 0, 0.5), look(10, "val", 0, 1)}},
		{recipe: "a", seed: 2, looks: []Look{look(0, "val", 0, 0.5), look(5, "val", 0, 0.75)}}, // ended early
		{recipe: "b", seed: 1, looks: []Look{other, look(0, "heldout", 0, 0.25)}},
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
	if got := string(looksCSV(rs, true)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	pic, ok := rs.picture(rate{"chain_rate", "chain rate"})
	if !ok || len(pic.Panels) != 2 || pic.Panels[0].Title != "val" || pic.Panels[1].Title != "heldout" {
		t.Fatalf("%d panels, want val and heldout: %+v", len(pic.Panels), pic)
	}
	var lines []string
	for _, l := range pic.Panels[0].Lines {
		lines = append(lines, fmt.Sprintf("%s %t %v %v %v %v", l.Name, l.Dashed, l.X, l.Y, l.Lo, l.Hi))
	}
	want = "a false [0 5 10] [0.25 0.625 1] [0 0.5 1] [0.5 0.75 1]\na true [0] [0.25] [0.25] [0.25]\nb false [0] [0.5] [] []"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("lines of val:\n%s\nwant\n%s", got, want)
	}
	for _, want := range []string{"solid: greedy", "sampled at temperature 0.7", "band from"} {
		if !strings.Contains(strings.ToLower(pic.Subtitle), want) {
			t.Errorf("the subtitle lacks %q: %s", want, pic.Subtitle)
		}
	}
	if _, err := pic.PNG(); err != nil {
		t.Error(err)
	}
	if _, ok := (reinforcements{{recipe: "a", seed: 1}}).picture(rate{"chain_rate", "chain rate"}); ok {
		t.Error("runs without a history have a picture")
	}
}
