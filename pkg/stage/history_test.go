package stage

import (
	"bytes"
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
