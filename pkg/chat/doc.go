// Package chat turns a conversation into the text, and the token ids, that a chat model was trained on: it renders the
// Jinja template that a model folder carries and prints JSON as Python does, so that the text is the reference's byte
// for byte.
//
// It also holds the rule "tokens in, tokens out" of a rollout: [Turns] gives the ids that stand between what the model
// sampled and its next turn, so that a context grows by appending and nothing is decoded and encoded again. Contents
// cannot inject control tokens there: a control token that is written out in an observation is spelled as text.
package chat
