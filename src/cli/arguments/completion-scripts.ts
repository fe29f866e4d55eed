/** The hidden command that answers shells. */
export const COMPLETE = '__complete'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/**
 * The scripts that a shell runs at the Tab key. The candidates come from the command being typed, so that scripts need no update; without
 * candidates, the shell completes file names.
 */
export const SCRIPTS: Record<Shell, string> = {
  bash: `# Completion of longhaul for bash 3.2 and later. In ~/.bashrc: source <(longhaul completion bash)
_longhaul() {
  COMPREPLY=()
  local line
  while IFS= read -r line; do
    COMPREPLY+=("$line")
  done < <("\${COMP_WORDS[0]}" ${COMPLETE} bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
}
complete -o default -o nosort -F _longhaul longhaul 2>/dev/null || complete -o default -F _longhaul longhaul
`,
  zsh: `#compdef longhaul
# Completion of longhaul for zsh. In ~/.zshrc, after compinit: source <(longhaul completion zsh)
_longhaul() {
  local -a values shown
  local value description
  while IFS=$'\\t' read -r value description; do
    values+=("$value")
    shown+=("$value\${description:+  -- $description}")
  done < <("\${words[1]}" ${COMPLETE} zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)
  if (( \${#values} )); then
    compadd -l -d shown -a values
  else
    _files
  fi
}
if [[ "\${funcstack[1]}" == _longhaul ]]; then _longhaul "$@"; else compdef _longhaul longhaul; fi
`,
  fish: `# Completion of longhaul for fish. In ~/.config/fish/config.fish: longhaul completion fish | source
function __longhaul_complete
    set -l words (commandline -opc)
    set -l answers ($words[1] ${COMPLETE} fish -- $words[2..-1] (commandline -ct) 2>/dev/null </dev/null)
    if test (count $answers) -gt 0
        printf '%s\\n' $answers
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c longhaul -f -a '(__longhaul_complete)'
`,
}
