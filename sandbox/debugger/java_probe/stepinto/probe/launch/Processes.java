package stepinto.probe.launch;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Processes seen from outside, by /proc, and their end. */
public final class Processes {
    private static final int TURNS = 20;
    /** Where {@code cminflt} stands after the state: the memory that its children used. */
    private static final int CHILDRENS_FAULTS = 8;

    private Processes() {}

    /** The number of a process, on every JDK; 0 if it can't be told. */
    public static long pid(Process process) {
        try {
            return (Long) Process.class.getMethod("pid").invoke(process);
        } catch (ReflectiveOperationException java8) {
            try {
                Field field = process.getClass().getDeclaredField("pid");
                field.setAccessible(true);
                return field.getInt(process);
            } catch (ReflectiveOperationException error) {
                return 0;
            }
        }
    }

    /** End a process and everything below it. */
    public static void killTree(Process root) {
        long top = pid(root);
        for (int turn = 0; turn < TURNS; turn++) {
            List<Long> left = descendants(top);
            if (turn > 0 && left.isEmpty()) {
                break;
            }
            StringBuilder command = new StringBuilder("kill -KILL");
            for (long pid : left) {
                command.append(' ').append(pid);
            }
            try {
                if (!left.isEmpty()) {
                    command.append(" 2>/dev/null");
                    new ProcessBuilder("/bin/sh", "-c", command.toString()).start().waitFor();
                }
            } catch (IOException error) {
                left.clear(); // no process can be started any more; the sandbox ends what is left
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            root.destroyForcibly();
        }
    }

    private static List<Long> descendants(long root) {
        Map<Long, Long> parents = new HashMap<>();
        String[] names = new File("/proc").list();
        for (String name : names == null ? new String[0] : names) {
            String[] fields = stat(name);
            if (fields.length > 1 && !"Z".equals(fields[0])) {
                parents.put(Long.valueOf(name), Long.valueOf(fields[1]));
            }
        }
        List<Long> found = new ArrayList<>();
        found.add(root);
        for (int at = 0; at < found.size(); at++) {
            for (Map.Entry<Long, Long> process : parents.entrySet()) {
                if (process.getValue().equals(found.get(at))) {
                    found.add(process.getKey());
                }
            }
        }
        found.remove(0);
        return found;
    }

    /** Whether a process has started others that run, or that have ended and it has waited for. */
    static boolean hasStartedOthers(long pid) {
        String[] fields = stat(Long.toString(pid));
        boolean waited = fields.length > CHILDRENS_FAULTS && !fields[CHILDRENS_FAULTS].equals("0");
        return waited || !descendants(pid).isEmpty();
    }

    /** The kernel's letter for what a process does: R runs, S sleeps, T is stopped. */
    public static String state(long pid) {
        String[] fields = stat(Long.toString(pid));
        return fields.length == 0 ? "?" : fields[0];
    }

    /** The fields of /proc/PID/stat from the state on; none if it is no process. */
    private static String[] stat(String pid) {
        if (!Character.isDigit(pid.charAt(0))) {
            return new String[0];
        }
        try {
            byte[] data = Files.readAllBytes(new File("/proc/" + pid, "stat").toPath());
            String text = new String(data, StandardCharsets.ISO_8859_1);
            return text.substring(text.lastIndexOf(')') + 2).split(" ");
        } catch (IOException error) {
            return new String[0]; // it has just ended
        }
    }

    /** The signal of an exit code as a shell has it; null if there was none. */
    public static String signalName(int exitCode) {
        String[] names = {"SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS",
            "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM"};
        int number = exitCode - 128;
        if (number <= 0) {
            return null;
        }
        return number <= names.length ? names[number - 1] : "signal " + number;
    }
}
