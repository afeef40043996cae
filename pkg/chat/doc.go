// Package chat turns a conversation into the text and the token ids that a chat model was trained on. It renders the Jinja
// template of a model folder and prints JSON as Python does, so that the text equals the reference's byte for byte.
//
// It also keeps the rule "tokens in, tokens out" of a rollout. [Turns] gives the ids between the end of one turn of the model and
// the start of the next. A context grows by these ids, and nothing is decoded and encoded again. An observation cannot inject
// control tokens: one that is written out there is spelled as text.
package chat
