// Package train turns demonstrations, preferences and rollouts into new weights of a [lm.Model]: of its adapter if it has one, of
// all its weights otherwise. The files of a method read on their own and give its formula and source. Tests compare each method
// with a reference implementation:
//
//   - sft.go: supervised fine-tuning on the action tokens of demonstrations ([SFT])
//   - dpo.go, pairs.go, dpo_metrics.go: direct preference optimization on pairs ([DPO])
//   - advantages.go, grpo_loss.go, grpo.go, grpo_metrics.go, grpo_run.go: group relative policy optimization on rollouts ([GRPO])
//
// The methods share the other files. batch.go lays out sequences in a few static shapes. optimizer.go is AdamW with clipping, and
// schedule.go the learning rate. learner.go holds weights and moments on the device and compiles the steps. loop.go runs SFT and
// DPO: data order, validation, stopping. runlog.go is the folder of a run: metrics.jsonl, timing.jsonl, TensorBoard's event files
// and checkpoints. stop.go has the rule that ends a run early.
//
// With the same seed, data, configuration and backend a run repeats bit for bit, also if it was killed and resumed. The package
// knows token ids and masks only. Tokenizers, episodes, rewards and the choice of data are elsewhere.
package train
