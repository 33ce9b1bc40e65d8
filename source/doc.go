// Package source turns a Git URL, a revision and a path into a list of Kubernetes objects.
//
// Repositories keeps one bare clone per repository: Resolve asks the server which commit a revision is and fetches it if
// it is missing, Tree gives a read-only view of a commit straight from the object database, and Render makes objects of
// one folder of it. A render is a pure function of the tree and the options; it executes nothing, reads nothing outside
// the repository, and says exactly which files, listings and misses it depended on. Start reading at Render.
package source
