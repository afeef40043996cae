package company_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/tool"
)

// A small world in memory: a task's prompt, its gold path and what the path's answer is worth without having seen the fact.
func Example() {
	w, err := company.Generate(company.Options{Seed: 5, Counts: map[string]int{
		company.Train: 60, company.Val: 0, company.ValCombo: 0, company.Test: 0, company.HeldoutCombo: 0, company.HeldoutTemplate: 0}})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	s := w.Suite()
	tasks, err := s.Tasks(company.Train)
	if err != nil {
		log.Fatal(err)
	}
	var t suite.Task
	for _, t = range tasks {
		if t.Template == "doc_number" {
			break
		}
	}
	p, err := s.Prompt(t)
	if err != nil {
		log.Fatal(err)
	}
	prices, _, _ := strings.Cut(p.User, "question:")
	fmt.Print(prices)
	fmt.Println(t.Combination, t.OptimalCost, t.Budget)
	box, err := s.Box(t)
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	seen, err := box.Call(context.Background(), company.ToolDoc, map[string]any{"query": t.Question})
	if err != nil {
		log.Fatal(err)
	}
	gold := t.Answer.Values[0]
	fmt.Printf("%+v\n%+v\n", s.Verify(t, gold, nil), s.Verify(t, gold, []tool.Observation{seen}))
	// Output:
	// sql_query 1
	// doc_search 2
	// web_search 5
	// calculator 0.5
	// [doc_search] 2 3
	// {Correct:true Evidenced:false}
	// {Correct:true Evidenced:true}
}
