// Package stored shows to PromQL what downsamples have of the samples of a policy.
//
// A Policy asks which windows of which targets stand for the samples that a plan of prom/window
// reads (Downsamples). Series then returns the series of the plan with these windows (see
// window.Stored): those of the policy, for the times of samples that some step still needs, and
// those of each column of each target, put together by their labels (joined). Where nothing is
// lost, or no downsample answers, the series are those that have the samples.
//
// Notes say which samples are from which downsample, and which are lost although a downsample
// has something of them.
//
// A Policy serves one query, in one goroutine. It does not decide what a downsample is good
// for: prom/window knows which functions follow from which columns and windows, and
// query/downsample which rows there are.
package stored
