package chain

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/tool/calc"
)

// The tools besides finish.
const (
	LookupTool     = "lookup"
	CalculatorTool = "calculator"
)

// tools are lookup, calculator and finish, in prompt order. All are stateless.
func (s *Suite) tools() []tool.Tool {
	return []tool.Tool{
		tool.Func{
			Def: tool.Spec{
				Name: LookupTool, Description: "the stock of one name, from the table",
				Parameters: tool.StringSchema("name", "the name as the question has it"),
				Price:      tool.Price{Base: s.cfg.LookupPrice},
			},
			Run: func(_ context.Context, args map[string]any) (tool.Observation, error) {
				name, _ := args["name"].(string)
				v, ok := s.table[canonical(name)]
				if !ok {
					return tool.Observation{}, fmt.Errorf("no entry %q", tool.CutText(name, 60))
				}
				return tool.ReadFrom(strconv.FormatInt(v, 10), "stock:"+canonical(name)), nil
			},
		},
		calc.NewTool(CalculatorTool, "the result of an arithmetic expression", tool.Price{Base: s.cfg.CalculatorPrice}),
		tool.Finish(),
	}
}

// canonical is the form in which names are compared: lower case, single spaces.
func canonical(name string) string { return strings.ToLower(strings.Join(strings.Fields(name), " ")) }

// Style is how much a prompt explains.
type Style string

// The styles.
const (
	Compact Style = "compact" // the question and one line of tools, for models trained on the suite
	Full    Style = "full"    // instructions, tools with their arguments and the action grammar, for models that never saw it
)

// Prompt implements suite.Suite.
func (s *Suite) Prompt(t suite.Task) (suite.Prompt, error) {
	box, err := s.Box(t)
	if err != nil {
		return suite.Prompt{}, err
	}
	defer box.Close()
	p := suite.Prompt{Question: t.Question, User: t.Question, Tools: box.Specs()}
	list := make([]string, len(p.Tools))
	for i, spec := range p.Tools {
		list[i] = spec.Name
		if spec.Price.Base != 0 {
			list[i] += " " + spec.Price.Base.String()
		}
	}
	if s.style != Full {
		p.User += "\nTools: " + strings.Join(list, ", ")
		return p, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Answer the question with the tools. You do not know any stock: look it up. Compute with the calculator. "+
		"At most %d actions.\n\nTools, each with its arguments (JSON schema) and its price a call:\n", MaxTurns)
	for _, spec := range p.Tools {
		fmt.Fprintf(&b, "- %s: %s. Arguments: %s Price: %s\n", spec.Name, spec.Description, spec.Parameters, spec.Price.Base)
	}
	b.WriteString("\nEach of your turns is one action: exactly one fenced block and nothing after it, such as\n" +
		"```json\n{\"tool\": \"lookup\", \"args\": {\"name\": \"...\"}}\n```\n" +
		"Its result comes back before your next turn. Give the final answer, the number alone, with finish.")
	p.System = b.String()
	return p, nil
}
