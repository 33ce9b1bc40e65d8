// Package words puts numbers and their nouns into sentences.
package words

import "strconv"

// Count returns "1 pod", "2 pods".
func Count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun + "s"
}

// Are returns "1 pod is", "2 pods are".
func Are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return Count(n, noun) + " are"
}
