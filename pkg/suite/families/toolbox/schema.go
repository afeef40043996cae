package toolbox

import (
	"encoding/json"
	"strings"
)

// object is the schema of an arguments object whose properties are all required: pairs of a name and the schema of its value.
func object(properties ...string) json.RawMessage {
	var fields, required []string
	for i := 0; i < len(properties); i += 2 {
		fields = append(fields, `"`+properties[i]+`":`+properties[i+1])
		required = append(required, `"`+properties[i]+`"`)
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(fields, ",") + `},"required":[` + strings.Join(required, ",") +
		`],"additionalProperties":false}`)
}

// Schemas of single arguments.
const (
	aText   = `{"type":"string"}`
	aWord   = `{"type":"string","minLength":1,"maxLength":60}`
	aNumber = `{"type":"number"}`
	anInt   = `{"type":"integer"}`
	aDate   = `{"type":"string","description":"2026-03-04"}`
	aTime   = `{"type":"string","description":"09:30"}`
	words   = `{"type":"array","items":` + aWord + `,"minItems":1,"maxItems":20}`
	numbers = `{"type":"array","items":` + aNumber + `,"minItems":1,"maxItems":50}`
)
