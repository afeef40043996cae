// Package stage holds one function for each stage of a run: make the world, profile the rewards, play the baselines, train,
// evaluate, report. Scripts, notebooks and the whole run call these and nothing deeper. A stage takes the resolved
// settings, writes into the run folder, is skipped when it is done already, and resumes when it was interrupted.
package stage
