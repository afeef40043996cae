package tokenizer

func isTinyDecoder(raw []byte) bool { return false }
func tinyReady(s string) string     { return s }
func tinyContext(s string) string   { return s }
