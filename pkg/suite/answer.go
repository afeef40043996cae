package suite

// AnswerType says how a final answer is compared with gold.
type AnswerType string

// The answer types.
const (
	Number AnswerType = "number" // exact decimal comparison within Tolerance
	String AnswerType = "string" // case, surrounding space and punctuation folded
	Date   AnswerType = "date"   // ISO dates and the usual spellings
	List   AnswerType = "list"   // as a set
	YesNo  AnswerType = "yesno"
)

// Answer is the gold answer of a task.
type Answer struct {
	Type AnswerType `json:"type"`
	// Values holds one value, or the elements of a list. Numbers are decimal strings of any length.
	Values []string `json:"values"`
	// Tolerance is the absolute difference allowed for a number, as a decimal string; empty is exact.
	Tolerance string `json:"tolerance,omitempty"`
}
