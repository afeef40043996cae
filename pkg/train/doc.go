// Package train turns demonstrations, preferences and rollouts into new weights of a [lm.Model]: of its adapter if it
// has one, of all its weights otherwise. Each method reads on its own, with its formula and
// source, and equals the reference implementations that the tests replay:
//
//   - sft.go: supervised fine-tuning on the action tokens of demonstrations ([SFT])
//   - dpo.go: direct preference optimization from pairs ([DPO]); pairs.go lays the pairs out
//   - grpo.go: group relative policy optimization from rollouts ([GRPO]), with its loss in grpo_loss.go and advantages.go before it
//
// They share plain pieces: batch.go lays sequences out in a few static shapes, optimizer.go and schedule.go are AdamW
// with clipping and the learning rate, learner.go holds weights and moments on the device and compiles a whole step into
// one program, loop.go is the run (data order, validation, stopping), runlog.go its folder (metrics.jsonl, timing.jsonl,
// TensorBoard's event files, checkpoints), dpo_metrics.go and grpo_metrics.go the numbers that say how it goes.
//
// A run repeats bit for bit with the same seed, data, configuration and backend, also when it was killed and resumed.
// The package knows token ids and masks only: tokenizers, episodes, rewards and the choice of data live elsewhere.
package train
