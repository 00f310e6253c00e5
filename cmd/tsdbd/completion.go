package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

func completionCommand() *command {
	return &command{
		name:     "completion",
		summary:  "print a completion script for a shell",
		about:    `tsdbd completion prints a script with which a shell completes the commands of tsdbd, their flags, and files.`,
		usage:    []string{"bash|zsh|fish"},
		operands: "bash|zsh|fish",
		examples: []example{
			{"source <(tsdbd completion bash)", "for this shell"},
			{"tsdbd completion bash > /etc/bash_completion.d/tsdbd", "for every bash"},
			{"tsdbd completion zsh > /usr/share/zsh/site-functions/_tsdbd", "for every zsh"},
			{"tsdbd completion fish > ~/.config/fish/completions/tsdbd.fish", "for every fish"},
		},
		define: func(f *commandFlags) action {
			return func(_ context.Context, rest []string, stdout, _ io.Writer) error {
				scripts := map[string]func() string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
				if len(rest) != 1 || scripts[rest[0]] == nil {
					return f.usageError("completion takes bash, zsh or fish")
				}
				_, err := io.WriteString(stdout, scripts[rest[0]]())
				return err
			}
		},
	}
}

// choices returns the words an argument may be, nil if any.
func choices(argument string) []string {
	if argument == "COMMAND" {
		return commandNames()
	}
	return words(argument)
}

// bashWords returns the bash command that completes arguments in $cur.
func bashWords(arguments ...string) string {
	var sources []string
	paths := ""
	for _, a := range arguments {
		switch list := choices(a); {
		case list != nil:
			sources = append(sources, fmt.Sprintf("compgen -W '%s' -- \"$cur\"", strings.Join(list, " ")))
		case a == "FILE" || a == "PATH":
			sources, paths = append(sources, `compgen -f -- "$cur"`), "; compopt -o filenames"
		case a == "DIR":
			sources, paths = append(sources, `compgen -d -- "$cur"`), "; compopt -o filenames"
		}
	}
	return "COMPREPLY=($(" + strings.Join(sources, "; ") + "))" + paths
}

func bashCompletion() string {
	var b bytes.Buffer
	b.WriteString(`# bash completion for tsdbd, printed by tsdbd completion bash
_tsdbd() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=serve
	[[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} != -* ]] && command=${COMP_WORDS[1]}
	if [[ $COMP_CWORD -eq 1 && $cur != -* ]]; then
		COMPREPLY=($(compgen -W '` + strings.Join(commandNames(), " ") + `' -- "$cur"))
		return
	fi
	case $command in
`)
	for _, c := range commands() {
		f, _ := c.flags()
		var names []string
		fmt.Fprintf(&b, "\t%s)\n\t\tcase $prev in\n", c.name)
		f.VisitAll(func(f *flag.Flag) {
			names = append(names, "-"+f.Name)
			if _, argument, _ := flagText(f); argument != "" {
				fmt.Fprintf(&b, "\t\t-%s) %s; return ;;\n", f.Name, bashWords(argument))
			}
		})
		fmt.Fprintf(&b, "\t\tesac\n\t\tif [[ $cur == -* ]]; then\n\t\t\tCOMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n\t\telse\n\t\t\t%s\n\t\tfi ;;\n",
			strings.Join(append(names, "-help"), " "), bashWords(strings.Fields(c.operands)...))
	}
	b.WriteString("\tesac\n}\ncomplete -F _tsdbd tsdbd\n")
	return b.String()
}

// quoteShell puts text between single quotes.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// zshWord returns the zsh action that completes an argument.
func zshWord(argument string) string {
	switch list := choices(argument); {
	case list != nil:
		return "(" + strings.Join(list, " ") + ")"
	case argument == "FILE" || argument == "PATH":
		return "_files"
	case argument == "DIR":
		return "_files -/"
	}
	return ""
}

func zshCompletion() string {
	text := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`)
	var b bytes.Buffer
	b.WriteString("#compdef tsdbd\n# zsh completion for tsdbd, printed by tsdbd completion zsh\n_tsdbd() {\n\tlocal -a commands\n\tcommands=(\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "\t\t%s\n", quoteShell(c.name+":"+text.Replace(c.summary)))
	}
	b.WriteString("\t)\n\tif (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tlocal command=serve\n\t[[ $words[2] != -* ]] && { command=$words[2]; shift words; (( CURRENT-- )) }\n\tcase $command in\n")
	for _, c := range commands() {
		f, _ := c.flags()
		fmt.Fprintf(&b, "\t%s)\n\t\t_arguments", c.name)
		f.VisitAll(func(f *flag.Flag) {
			_, argument, does := flagText(f)
			spec := "-" + f.Name + "[" + text.Replace(does) + "]"
			if argument != "" {
				spec += ":" + text.Replace(argument) + ":" + zshWord(argument)
			}
			fmt.Fprintf(&b, " \\\n\t\t\t%s", quoteShell(spec))
		})
		for i, operand := range strings.Fields(c.operands) {
			fmt.Fprintf(&b, " \\\n\t\t\t%s", quoteShell(fmt.Sprintf("%d:%s:%s", i+1, text.Replace(operand), zshWord(operand))))
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("\tesac\n}\n_tsdbd \"$@\"\n")
	return b.String()
}

func fishCompletion() string {
	var b bytes.Buffer
	b.WriteString("# fish completion for tsdbd, printed by tsdbd completion fish\ncomplete -c tsdbd -f\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "complete -c tsdbd -n __fish_use_subcommand -a %s -d %s\n", c.name, quoteShell(c.summary))
	}
	for _, c := range commands() {
		f, _ := c.flags()
		when := quoteShell("__fish_seen_subcommand_from " + c.name)
		if c.name == "serve" {
			when = quoteShell("__fish_use_subcommand; or __fish_seen_subcommand_from serve")
		}
		f.VisitAll(func(f *flag.Flag) {
			_, argument, does := flagText(f)
			fmt.Fprintf(&b, "complete -c tsdbd -n %s -o %s -d %s%s\n", when, f.Name, quoteShell(does), fishWord(argument, " -x"))
		})
		for _, operand := range strings.Fields(c.operands) {
			fmt.Fprintf(&b, "complete -c tsdbd -n %s%s\n", when, fishWord(operand, ""))
		}
	}
	return b.String()
}

// fishWord returns the options with which fish completes an argument, exclusive
// if it is a flag's.
func fishWord(argument, exclusive string) string {
	switch list := choices(argument); {
	case argument == "":
		return ""
	case list != nil:
		return exclusive + " -a " + quoteShell(strings.Join(list, " "))
	case argument == "FILE" || argument == "PATH":
		return strings.Replace(exclusive, "-x", "-r", 1) + " -F"
	case argument == "DIR":
		return exclusive + " -a '(__fish_complete_directories)'"
	}
	return exclusive
}
