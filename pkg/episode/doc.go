// Package episode plays one task with one policy, text in and observation out: it parses the action a policy wrote, checks
// it against the offered tools, charges the budget, calls the tool, words the observation and ends with exactly one
// reason. Every policy, scripted or learned, in training, evaluation and replay, goes through this one reading of an
// action, so that the same text always gets the same verdict. It holds no model, no tokens and no reward; package rollout
// plays many episodes at once.
//
// # Actions
//
// An action is exactly one fenced block, and generation stops at its closing fence:
//
//	any text, which costs tokens
//	```json
//	{"thought": "...", "tool": "sql_query", "args": {"query": "..."}}
//	```
//
// The thought is optional and comes before the tool. What is accepted and what is refused, with the kind of each error, is
// the table in docs/action_grammar.md; its rows are tests. The rules behind the rows:
//
//   - The text is read from left to right and the first fault found is the one reported. A faulty action executes nothing.
//   - A fence opens only as the first thing on its line, spaces and tabs aside; backticks elsewhere are prose. So an action
//     quoted within a sentence or behind "> " is not an action.
//   - The first fence decides. If it does not open a ```json block, the action is refused, whatever follows.
//   - Fences inside a JSON string are part of the string.
//   - After the closing fence only white space may follow. Generation stops there, so text after it comes from scripts and
//     replays only; it makes the action invalid (text_after, or two_blocks when it holds another fence).
//   - JSON is read strictly: known keys in their exact case, each once, no trailing comma, no comment, no NaN. Numbers keep
//     their digits.
//   - Invalid UTF-8 and the replacement character are the same thing, and refused within the block: records are stored as
//     JSON, which turns the one into the other, and a replay must get the same verdict.
//
// # Limits, budget and ends
//
// An invalid action is not a call: it costs no money, uses a turn and is counted for the format penalty. A call costs its
// price, also when it fails (Config.FreeFailures changes that). With a soft budget spend may pass the budget and what is
// left is shown as a negative number; with a hard one a call that would pass it is neither executed nor charged and ends
// the episode. See Config for the limits and trajectory.EndReason for the reasons.
package episode
