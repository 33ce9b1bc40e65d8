package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// cell is one field of a table.
type cell struct {
	text  string
	style style
}

// table is written with its columns aligned, whether or not they are coloured.
type table struct {
	indent string
	rows   [][]cell
}

func (t *table) header(names ...string) {
	row := make([]cell, len(names))
	for i, n := range names {
		row[i] = cell{n, bold}
	}
	t.rows = append(t.rows, row)
}

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

// write prints the table; nothing follows the last field of a row that has text.
func (t *table) write(w io.Writer, p palette) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range t.rows {
		for len(row) > 0 && row[len(row)-1].text == "" {
			row = row[:len(row)-1]
		}
		line := t.indent
		for i, c := range row {
			line += p.paint(c.style, c.text)
			if i < len(row)-1 {
				line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2)
			}
		}
		fmt.Fprintln(w, line)
	}
}
