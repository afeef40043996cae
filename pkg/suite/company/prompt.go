package company

import (
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Prompt implements suite.Suite. The compact style has no system text: a line a tool with its price, the question, the budget;
// where the tools are masked, the line also says what the tool is. The full style tells an instruct model all it needs: the tools
// with descriptions, arguments and prices, the tables, the grammar of an action and an example.
func (s *Suite) Prompt(t suite.Task) (suite.Prompt, error) {
	box, err := s.Box(t)
	if err != nil {
		return suite.Prompt{}, fmt.Errorf("company: task %s: %w", t.ID, err)
	}
	defer box.Close()
	mask := maskOf(t)
	p := suite.Prompt{Question: t.Question, Tools: box.Specs(), Budget: t.Budget}
	if s.opt.Style == Full {
		p.System = s.fullSystem(p.Tools, mask)
		p.User = fmt.Sprintf("Question: %s\nBudget: %v", t.Question, t.Budget)
		return p, nil
	}
	var b strings.Builder
	for _, spec := range p.Tools {
		switch {
		case spec.Name == tool.FinishName:
		case mask != nil:
			fmt.Fprintf(&b, "%s %v %s\n", spec.Name, spec.Price.Base, holds[mask[spec.Name]])
		default:
			fmt.Fprintf(&b, "%s %v\n", spec.Name, spec.Price.Base)
		}
	}
	fmt.Fprintf(&b, "question: %s\nbudget: %v", t.Question, t.Budget)
	p.User = b.String()
	return p, nil
}

func (s *Suite) fullSystem(tools []tool.Spec, mask map[string]string) string {
	var b strings.Builder
	b.WriteString("You answer questions about a company with tools that cost money. Use the cheapest set of tools that is sufficient: a correct answer " +
		"earns more the less it cost, a wrong answer earns nothing, and values you did not see in a tool's output do not count.\n\nTools and prices of a call:\n")
	sql := false
	for _, t := range tools {
		arg := argName[ownName(t.Name, mask)]
		if t.Name == tool.FinishName {
			arg = "answer"
		}
		sql = sql || ownName(t.Name, mask) == ToolSQL
		fmt.Fprintf(&b, "- %s, price %v: %s. Arguments: {\"%s\": string}\n", t.Name, t.Price.Base, t.Description, arg)
	}
	if sql {
		b.WriteString("\nTables of the database:\n")
		for _, t := range s.stores.db.Tables() {
			fmt.Fprintf(&b, "- %s(%s)\n", t.Name, strings.Join(t.Columns, ", "))
		}
		b.WriteString("A query selects columns, or one COUNT, SUM, AVG, MIN or MAX of a column; JOIN goes from a column to the key it refers to; WHERE compares " +
			"columns with numbers, 'texts', lists or a subquery of one column; GROUP BY a column, ORDER BY and LIMIT are allowed. There are no other functions, no LIKE, no subqueries in FROM.\n")
	}
	b.WriteString("\nAnswer with exactly one fenced block a turn and nothing after it")
	ex, ok := examples[ownName(tools[0].Name, mask)]
	if !ok {
		ex = examples[ToolSQL]
	}
	if s.opt.Thoughts {
		fmt.Fprintf(&b, "; thought is optional:\n```json\n{\"thought\": \"%s\", \"tool\": \"%s\", \"args\": %s}\n```\n", ex[0], tools[0].Name, ex[1])
	} else {
		fmt.Fprintf(&b, ":\n```json\n{\"tool\": \"%s\", \"args\": %s}\n```\n", tools[0].Name, ex[1])
	}
	b.WriteString("You then see the tool's output and the remaining budget. End with the bare answer (a number, a name, a date as YYYY-MM-DD, yes or no, " +
		"or a list separated by commas):\n```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"420\"}}\n```\n" +
		"Facts are in one place each: records in the database, rules and reports in the documents, the outside world on the web. Search for a name with the words of what you want to know.")
	return b.String()
}

// examples are a thought and arguments of each tool, about things that no world holds.
var examples = map[string][2]string{
	ToolSQL:  {"capacity of Example Yard", `{"query": "SELECT capacity FROM sites WHERE name = 'Example Yard'"}`},
	ToolDoc:  {"visitor limit of Example Yard", `{"query": "Example Yard visitor limit"}`},
	ToolWeb:  {"power tariff of Example Yard", `{"query": "Example Yard power tariff"}`},
	ToolCalc: {"12 times 35", `{"expression": "12*35"}`},
}
