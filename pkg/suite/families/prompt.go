package families

import (
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Prompt implements suite.Suite. The compact style has a line a tool with its price, and the question. The full style tells an instruct model
// the rules, each tool with its schema and price, and the grammar of an action.
func (s *Suite) Prompt(t suite.Task) (suite.Prompt, error) {
	box, err := s.Box(t)
	if err != nil {
		return suite.Prompt{}, err
	}
	defer box.Close()
	p := suite.Prompt{Question: t.Question, Tools: box.Specs()}
	if s.view.Style == Full {
		p.System, p.User = s.fullSystem(p.Tools), t.Question
		return p, nil
	}
	var b strings.Builder
	for _, spec := range p.Tools {
		if spec.Name != tool.FinishName {
			fmt.Fprintf(&b, "%s %s\n", spec.Name, priceText(spec.Price))
		}
	}
	b.WriteString("question: " + t.Question)
	p.User = b.String()
	return p, nil
}

// priceText writes a price as the compact prompt shows it.
func priceText(p tool.Price) string {
	if p.PerUnit == 0 {
		return p.Base.String()
	}
	return p.Base.String() + " + " + p.PerUnit.String() + " each"
}

func (s *Suite) fullSystem(tools []tool.Spec) string {
	var b strings.Builder
	b.WriteString("You do tasks with tools that cost money. Use the cheapest tools that do the task: a solved task earns more the less it cost, an unsolved one earns nothing, and values that you did not see " +
		"in a tool's output do not count. A call that fails costs as much as one that works.\n\nTools, with the JSON schema of their arguments and the price of a call:\n")
	for _, t := range tools {
		fmt.Fprintf(&b, "- %s: %s. Arguments: %s Price: %s", t.Name, t.Description, t.Parameters, t.Price.Base)
		if t.Price.PerUnit != 0 {
			fmt.Fprintf(&b, " plus %s for each of %s", t.Price.PerUnit, t.Price.UnitArg)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "distance_between knows pairs of these cities: %s.\n", strings.Join(s.world.Hubs(), ", "))
	b.WriteString("\nEach of your turns is one action: exactly one fenced block and nothing after it. thought is optional:\n```json\n{\"thought\": \"weather of Example\", \"tool\": \"weather\", \"args\": {\"city\": \"Example\"}}\n```\n" +
		"You then see the tool's output. End with the bare answer (a number, a name, yes or no, or values separated by commas; done where no value is asked for):\n" +
		"```json\n{\"tool\": \"finish\", \"args\": {\"answer\": \"420\"}}\n```")
	return b.String()
}
