// Package servertest runs real servers for tests, as processes that are stopped
// by their id: on free loopback ports and in private directories, over the same
// of both each time one is started. None outlives the process of the test,
// however that ends.
package servertest
