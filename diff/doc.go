// Package diff tells, from metadata alone, who owns which field of an object, what drifted from Git, and what is to
// be done about it. It takes values and returns values: no client, context, clock or logger.
//
// Start reading at Compare; it rests on two facts of server-side apply. Our entry in metadata.managedFields lists
// exactly the fields that we applied, and the API server takes a field out of it as soon as somebody else changes it.
// So our entry shrinks exactly when there is drift, and its digest tells whether it did.
//
// What the API server notes nowhere cannot be told: the order of the items of a list with keys, a Secret's data that
// another manager applied as stringData, what was written along with a list item that lacks its keys, and, where Git
// declares an empty list or null, whether that is still there.
package diff
