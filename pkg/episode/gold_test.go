package episode_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
)

// A record holds the calls of the gold path with their arguments, and the candidate paths where the task has any: what columns compare with.
func TestRecordHoldsPaths(t *testing.T) {
	s := &mini.Suite{Seed: 1, Count: 3}
	tasks, err := s.Tasks("train")
	if err != nil {
		t.Fatal(err)
	}
	task := tasks[1]
	wasteful := append([]suite.Call{{Thought: "first", Tool: "stock", Args: json.RawMessage(`{ "item" : "cups" }`)}}, task.GoldPath...)
	task.Paths = []suite.Path{{Calls: task.GoldPath, Cost: task.OptimalCost}, {Calls: wasteful, Cost: price.Of(3)}, {Calls: wasteful[:1], Cost: price.Of(1), Fails: true}}
	e, err := episode.New(s, task, episode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	record := e.Result().Task
	paths, err := json.Marshal(record.Paths)
	if err != nil {
		t.Fatal(err)
	}
	const stock, catalog = `{"tool":"stock","args":{"item":"cups"}}`, `{"tool":"catalog","args":{"query":"cups"}}`
	want := fmt.Sprintf(`[{"calls":[%s],"cost":2},{"calls":[%s,%s],"cost":3},{"calls":[%s],"cost":1,"fails":true}]`, catalog, stock, catalog, stock)
	if string(paths) != want {
		t.Errorf("paths are %s, want %s", paths, want)
	}
	gold, err := json.Marshal(record.GoldPath)
	if err != nil || string(gold) != "["+catalog+"]" || fmt.Sprint(record.GoldCalls) != "map[catalog:1]" {
		t.Errorf("the gold path is %s, its calls %v, %v", gold, record.GoldCalls, err)
	}
}
