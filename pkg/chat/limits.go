package chat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	controlstructures "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Bounds on templates. A template comes from a model folder, and the engine has no bounds of its own. A macro that calls itself
// would end the process by a stack overflow, from which no Go program recovers. The bounds count, and do not measure time, so a
// template is refused in every run or in none.
const (
	maxSource  = 256 << 10 // bytes of a template
	maxNesting = 100       // open brackets and unfinished blocks
	maxDepth   = 50        // macros that call each other
	maxSteps   = 200_000   // rounds of loops and calls of macros
	maxRange   = 10_000    // numbers of a range
	maxValue   = 4 << 20   // bytes of what a variable holds, and of what is rendered
)

// limitsName is the variable that holds the limits of a rendering.
const limitsName = "__limits__"

// limits counts what one rendering has done.
type limits struct{ depth, steps int }

func (l *limits) step() error {
	if l.steps++; l.steps > maxSteps {
		return fmt.Errorf("more than %d rounds of loops and calls of macros", maxSteps)
	}
	return nil
}

// limitsOf finds the limits of a rendering. While a template is parsed there are none, and nothing to count.
func limitsOf(r *exec.Renderer) *limits {
	if v, ok := r.Environment.Context.Get(limitsName); ok {
		if l, ok := v.(*limits); ok {
			return l
		}
	}
	return &limits{}
}

// bounded is a writer for what is rendered.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxValue {
		return 0, fmt.Errorf("more than %d bytes", maxValue)
	}
	return b.Builder.Write(p)
}

func (b *bounded) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// checkSource refuses a template that is too long or too deeply nested. The parser calls itself for every bracket and block, so such
// a template would overflow its stack.
func checkSource(src string) error {
	if len(src) > maxSource {
		return fmt.Errorf("it has %d bytes, at most %d are read", len(src), maxSource)
	}
	open, most := 0, 0
	for _, r := range src {
		switch r {
		case '(', '[':
			open++
		case ')', ']':
			open = max(0, open-1)
		}
		most = max(most, open)
	}
	for _, word := range []string{"not ", "- ", "+ "} { // each calls itself too
		run := strings.Repeat(word, maxNesting)
		if strings.Contains(strings.Join(strings.Fields(src), " ")+" ", run) {
			most = maxNesting + 1
		}
	}
	for _, run := range []string{strings.Repeat("-", maxNesting), strings.Repeat("+", maxNesting), strings.Repeat("{", maxNesting)} {
		if strings.Contains(src, run) {
			most = maxNesting + 1
		}
	}
	if most > maxNesting {
		return fmt.Errorf("its brackets or signs are nested more than %d deep", maxNesting)
	}
	blocks := 0
	for rest := src; ; {
		_, after, ok := strings.Cut(rest, "{%")
		if !ok {
			return nil
		}
		rest = after
		tag := strings.TrimLeft(rest, "-+ \t\r\n")
		switch {
		case strings.HasPrefix(tag, "end"):
			blocks = max(0, blocks-1)
		case strings.HasPrefix(tag, "for"), strings.HasPrefix(tag, "if"), strings.HasPrefix(tag, "macro"), strings.HasPrefix(tag, "call"),
			strings.HasPrefix(tag, "filter"), strings.HasPrefix(tag, "with"), strings.HasPrefix(tag, "generation"), strings.HasPrefix(tag, "set"):
			if blocks++; strings.HasPrefix(tag, "set") && strings.Contains(strings.SplitN(tag, "%}", 2)[0], "=") {
				blocks-- // a set with a value has no end
			}
		}
		if blocks > maxNesting {
			return fmt.Errorf("its blocks are nested more than %d deep", maxNesting)
		}
	}
}

// structures are the statements that a chat template may use. Statements that read other templates are not among them, and neither are
// blocks, which can call themselves by name.
func structures() *exec.ControlStructureSet {
	known := map[string]parser.ControlStructureParser{"generation": parseGeneration}
	for _, name := range []string{"break", "call", "continue", "do", "filter", "for", "if", "macro", "raw", "set", "with"} {
		if p, ok := builtins.ControlStructures.Get(name); ok {
			known[name] = p
		}
	}
	loop, macro, set := known["for"], known["macro"], known["set"]
	known["for"] = func(p, args *parser.Parser) (nodes.ControlStructure, error) { return parseFor(loop, p, args) }
	known["macro"] = func(p, args *parser.Parser) (nodes.ControlStructure, error) { return parseMacro(macro, p, args) }
	known["set"] = func(p, args *parser.Parser) (nodes.ControlStructure, error) { return parseSet(set, p, args) }
	return exec.NewControlStructureSet(known)
}

// wrapped is a statement of the engine with something before or after it.
type wrapped struct {
	exec.ControlStructure
	execute func(r *exec.Renderer, tag *nodes.ControlStructureBlock) error
}

func (w *wrapped) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	return w.execute(r, tag)
}

// tick counts a round of a loop, as its first statement.
type tick struct{ at *tokens.Token }

func (t tick) Position() *tokens.Token { return t.at }
func (t tick) String() string          { return "round of a loop" }

// Execute counts.
func (t tick) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return limitsOf(r).step()
}

func parseFor(engine parser.ControlStructureParser, p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	cs, err := engine(p, args)
	if err != nil {
		return nil, err
	}
	loop, ok := cs.(*controlstructures.ForControlStructure)
	if !ok {
		return nil, fmt.Errorf("unexpected loop %T", cs)
	}
	if loop.Recursive {
		return nil, errors.New("a loop that is recursive is not supported: it may never end")
	}
	first := &nodes.ControlStructureBlock{Location: at, Name: "tick", ControlStructure: tick{at}}
	loop.BodyWrapper.Nodes = append([]nodes.Node{first}, loop.BodyWrapper.Nodes...)
	return loop, nil
}

func parseMacro(engine parser.ControlStructureParser, p, args *parser.Parser) (nodes.ControlStructure, error) {
	cs, err := engine(p, args)
	if err != nil {
		return nil, err
	}
	macro, ok := cs.(*controlstructures.MacroControlStructure)
	if !ok {
		return nil, fmt.Errorf("unexpected macro %T", cs)
	}
	return &wrapped{macro, func(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
		call, err := exec.MacroNodeToFunc(macro.Macro, r)
		if err != nil {
			return err
		}
		r.Environment.Context.Set(macro.Name, exec.Macro(func(params *exec.VarArgs) *exec.Value {
			l := limitsOf(r)
			if l.depth >= maxDepth {
				return exec.AsValue(fmt.Errorf("macro %s: macros call each other more than %d deep", macro.Name, maxDepth))
			}
			if err := l.step(); err != nil {
				return exec.AsValue(err)
			}
			l.depth++
			defer func() { l.depth-- }()
			return call(params)
		}))
		return nil
	}}, nil
}

func parseSet(engine parser.ControlStructureParser, p, args *parser.Parser) (nodes.ControlStructure, error) {
	name := args.Current()
	cs, err := engine(p, args)
	if err != nil {
		return nil, err
	}
	set, ok := cs.(exec.ControlStructure)
	if !ok || name == nil {
		return nil, fmt.Errorf("unexpected set %T", cs)
	}
	return &wrapped{set, func(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
		if err := set.Execute(r, tag); err != nil {
			return err
		}
		if v, ok := r.Environment.Context.Get(name.Val); ok && sizeOf(v, 2) > maxValue {
			return fmt.Errorf("%s holds more than %d bytes", name.Val, maxValue)
		}
		return nil
	}}, nil
}

// sizeOf is the length of the text that a variable holds, by itself or as a field of a namespace.
func sizeOf(v any, deep int) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case *exec.Value:
		if v.IsString() {
			return len(v.String())
		}
	case map[string]any:
		for _, item := range v {
			if deep > 0 {
				n += sizeOf(item, deep-1)
			}
		}
	}
	return n
}

// generation is the block with which training templates mark the assistant's text. Its body is rendered as it stands.
type generation struct {
	at   *tokens.Token
	body *nodes.Wrapper
}

func (g *generation) Position() *tokens.Token { return g.at }
func (g *generation) String() string          { return "generation" }

// Execute renders the body.
func (g *generation) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.ExecuteWrapper(g.body)
}

func parseGeneration(p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	if !args.End() {
		return nil, args.Error("generation takes no arguments.", nil)
	}
	body, end, err := p.WrapUntil("endgeneration")
	if err != nil {
		return nil, err
	}
	if !end.End() {
		return nil, end.Error("Arguments not allowed here.", nil)
	}
	return &generation{at, body}, nil
}

// numbers is the function range, with a bound.
func numbers(_ *exec.Evaluator, params *exec.VarArgs) ([]int, error) {
	at := [3]int{0, 0, 1}
	n := len(params.Args)
	if n < 1 || n > 3 || len(params.KwArgs) > 0 {
		return nil, errors.New("range takes 1 to 3 integers")
	}
	for i, a := range params.Args {
		if !a.IsInteger() {
			return nil, errors.New("range takes 1 to 3 integers")
		}
		if n == 1 {
			i = 1
		}
		at[i] = a.Integer()
	}
	if at[2] == 0 {
		return nil, errors.New("range: the step is 0")
	}
	out := []int{}
	for i := at[0]; at[2] > 0 && i < at[1] || at[2] < 0 && i > at[1]; i += at[2] {
		if len(out) == maxRange {
			return nil, fmt.Errorf("range: more than %d numbers", maxRange)
		}
		out = append(out, i)
	}
	return out, nil
}
