// Package edits measures how far one sequence is from another. Messages about misspelt names and diagnoses of mis-copied values go by it.
package edits

// Distance is Levenshtein's: the fewest insertions, deletions and replacements that turn a into b. It takes len(a) times len(b) steps.
func Distance[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
