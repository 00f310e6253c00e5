module tsdbd/bench

go 1.26.0

require tsdbd v0.0.0

require golang.org/x/sys v0.49.0 // indirect

replace tsdbd => ../
