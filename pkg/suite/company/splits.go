package company

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/suite"
)

// CheckSplits reports each breach of what splits must not share and of what a held-out split must keep from train: an id, question or fact
// that is in two splits; a train question with a name that a task of another split rests on; a held-out combination, template or wording in
// train; a held-out split without any.
func CheckSplits(tasks []suite.Task) []string {
	var out []string
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	ids, questions, facts := map[string]suite.Task{}, map[string]suite.Task{}, map[string]suite.Task{}
	trainCombos, trainStructures, trainTemplates, trainWords := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	asked := map[string]string{} // pair of words in a train question -> task
	for _, t := range tasks {
		if o, ok := ids[t.ID]; ok {
			fault("id %s is in %s and %s", t.ID, o.Split, t.Split)
		}
		ids[t.ID] = t
		q := strings.ToLower(t.Question)
		if o, ok := questions[q]; ok {
			fault("question %q is asked by %s (%s) and %s (%s)", t.Question, o.ID, o.Split, t.ID, t.Split)
		}
		questions[q] = t
		for _, f := range strings.Split(t.Fact, factSep) {
			if o, ok := facts[f]; ok && o.Split != t.Split {
				fault("fact %s is in %s (%s) and %s (%s)", f, o.ID, o.Split, t.ID, t.Split)
			}
			facts[f] = t
		}
		if t.Split == Train {
			trainCombos[t.CombinationKey()] = true
			trainStructures[t.Structure] = true
			trainTemplates[t.Template] = true
			trainWords[t.Phrasing] = true
			words := strings.FieldsFunc(t.Question, func(r rune) bool { return strings.ContainsRune(" ?.,:", r) })
			for i := 1; i < len(words); i++ {
				asked[words[i-1]+" "+words[i]] = t.ID
			}
		}
	}
	for _, t := range tasks {
		if t.Split == Train {
			continue
		}
		for _, name := range subjectsOf(t) {
			if o, ok := asked[name]; ok {
				fault("%s, on which %s (%s) rests, is in the question of %s", name, t.ID, t.Split, o)
			}
		}
		if t.HasTag(TagUnseenPhrasing) && trainWords[t.Phrasing] {
			fault("%s (%s): the wording %s is in train", t.ID, t.Split, t.Phrasing)
		}
		held, filling := !trainCombos[t.CombinationKey()], trainStructures[t.Structure]
		switch t.Split {
		case HeldoutCombo, ValCombo:
			if !held {
				fault("%s (%s): the combination %s is in train", t.ID, t.Split, t.CombinationKey())
			}
			if t.HasTag(TagNewFilling) != filling || t.HasTag(TagNewStructure) == filling {
				fault("%s: tags %v, while its structure %s is in train: %v", t.ID, t.Tags, t.Structure, filling)
			}
		case HeldoutTemplate:
			if trainTemplates[t.Template] {
				fault("%s (%s): the template %s is in train", t.ID, t.Split, t.Template)
			}
			if held || !filling {
				fault("%s (%s): its combination or structure is not in train", t.ID, t.Split)
			}
		default:
			if held && !slices.Contains(t.Tags, TagTwoSource) {
				fault("%s (%s): the combination %s is not in train", t.ID, t.Split, t.CombinationKey())
			}
		}
	}
	return out
}
