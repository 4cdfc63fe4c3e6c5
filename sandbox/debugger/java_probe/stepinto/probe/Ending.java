package stepinto.probe;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.LinkedHashMap;
import java.util.Map;
import stepinto.probe.launch.Debuggee;
import stepinto.probe.launch.Processes;
import stepinto.probe.threads.Diagnosis;

/** How the program ended, as the fields of an answer. */
final class Ending {
    private Ending() {}

    /** It ended by itself, or crashed; {@code inOrder} if its virtual machine said so. */
    static Map<String, Object> of(Debuggee debuggee, Integer code, boolean inOrder) {
        debuggee.kill();
        Map<String, Object> stop = new LinkedHashMap<>();
        stop.put("reason", "exited");
        stop.put("exit_code", code);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("stop", stop);
        String signal = code == null || inOrder ? null : Processes.signalName(code);
        if (signal != null) {
            answer.put("signal", signal);
            answer.put("kill_reason", "crashed");
        }
        if (outOfMemory(debuggee)) {
            answer.put("kill_reason", "out_of_memory");
        }
        return answer;
    }

    /** What a crashed virtual machine wrote of itself; then its report is deleted. */
    private static boolean outOfMemory(Debuggee debuggee) {
        File report = new File("/tmp/stepinto-crash-" + Processes.pid(debuggee.process) + ".log");
        try {
            byte[] data = Files.readAllBytes(report.toPath());
            Files.delete(report.toPath());
            return new String(data, StandardCharsets.UTF_8).contains("insufficient memory");
        } catch (IOException none) {
            return false;
        }
    }

    /**
     * It did not answer in time, and was killed.
     *
     * @param late what a method run for the debugger is doing, as a kill reason; null if none runs
     */
    static Map<String, Object> killed(Debuggee debuggee, String late) {
        Map<String, Object> stop = new LinkedHashMap<>();
        stop.put("reason", "killed");
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("state", "done");
        answer.put("stop", stop);
        answer.put("kill_reason", late == null ? Diagnosis.NATIVE : late);
        answer.put("lost", problem(debuggee, late) + ", so the program was killed; restart it");
        return answer;
    }

    private static String problem(Debuggee debuggee, String late) {
        if (Diagnosis.DEADLOCK.equals(late)) {
            return "the method that was called waits for a lock that a paused thread holds, and"
                    + " could not be ended";
        }
        if (late != null) {
            return "the method that was called did not end, not even by an error raised in it";
        }
        String state = debuggee == null ? "?" : Processes.state(Processes.pid(debuggee.process));
        boolean stopped = state.equals("T") || state.equals("t");
        return "the program's virtual machine did not answer the interrupt ("
                + (stopped ? "its process is stopped" : "process state " + state) + ")";
    }
}
