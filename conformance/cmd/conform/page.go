package main

func writePage(file string, results []*result, c caught) error { return nil }
