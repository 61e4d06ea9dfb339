#!/usr/bin/env node
'use strict'

// Starts the program of this platform, which npm installed beside this package.

const { spawn } = require('node:child_process')
const { constants } = require('node:os')

const platform = `${process.platform}-${process.arch}`
const SCOPE = '@agentd-embed'
const PLATFORMS = ['linux-x64', 'linux-arm64']

/** The path of the program; ends with a message where there is none. */
function find() {
  try {
    return require.resolve(`${SCOPE}/${platform}/bin/agentd`)
  } catch {
    const known = PLATFORMS.includes(platform)
    const why = known
      ? `the package ${SCOPE}/${platform} is not installed next to ${SCOPE}/agentd. npm leaves it out with ` +
        '`--omit=optional`, where there is no such package for this version, and on systems without glibc, ' +
        `such as Alpine Linux. Install ${SCOPE}/agentd again without that option, or take the static tarball`
      : `there is no program for ${platform}; there is one for ${PLATFORMS.join(' and ')}`
    console.error(`agentd: ${why}.`)
    process.exit(1)
  }
}

/** Passes signals on, so that whoever ends the launcher ends the program. */
function passSignals(child) {
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGINT']) {
    process.on(signal, () => {
      // A terminal sends this one to the program, too, and a second one would mean more than the first.
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
    })
  }
}

const program = find()
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit', argv0: 'agentd' })
passSignals(child)
child.on('error', (error) => {
  console.error(`agentd: cannot start ${program}: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  process.exit(signal === null ? code : 128 + constants.signals[signal])
})
